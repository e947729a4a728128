"""A site's training beside the protocol: taking over a model, its data, and what its journal ends with."""

import threading

import numpy as np
import pytest
import torch

from crossgrad._runs.folder import RunFolder
from crossgrad.data import Samples
from crossgrad.federation.agent import SiteFolder, SiteStop
from crossgrad.federation.data import data_of_site
from crossgrad.federation.journal import Adopted, Began, Ended, Journal, Offered, Started, last_epoch, read_journal
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.replay import replay
from crossgrad.federation.secret import make_secret, secret_advice, secret_of, use_secret
from crossgrad.federation.start import SiteData, data_of_experiment, start
from crossgrad.federation.training import adopt_model, digest_of, model_bytes, with_model
from crossgrad.federation.turns import Board

TEXT = """
classes = 3
[experiment]
model = "mlp"
graph = "ring"
algorithm = "dpmsgd"
partition = "iid"
training = { steps = 3, deterministic = true }
[[sites]]
name = "a"
listen = "127.0.0.1:1"
[[sites]]
name = "b"
"""


@pytest.fixture(scope="module")
def federation():
    return parse_federation(TEXT)


def test_a_site_without_a_model_begins_with_its_neighbours(federation):
    data = data_of_experiment(federation)
    giver, taker = (start(federation, agent, data[agent]) for agent in (0, 1))
    giver.state.x.add_(1.0)
    taker.state.v.add_(1.0)
    adopt_model(taker, model_bytes(giver))
    assert torch.equal(taker.state.x, giver.state.x)
    assert not taker.state.v.any()
    with pytest.raises(ValueError, match="were due"):
        adopt_model(taker, model_bytes(giver)[:-4])
    giver.state.x[0, 0] = torch.nan
    with pytest.raises(ValueError, match="must be finite"):
        adopt_model(taker, model_bytes(giver))


def test_a_model_that_was_taken_over_is_repeated_from_the_journals(federation):
    data = data_of_experiment(federation)
    digest = digest_of(start(federation, 0, data[0]).state.x[0])
    journals = {
        0: [Started(0, 0), Offered(0, 0), Ended(0, 0, digest)],
        1: [Started(0, 0), Adopted(1, 2, 0, 0, 0), Ended(1, 2, digest)],
    }
    assert all(each.same for each in replay(federation, journals, data))
    del journals[0][1]
    with pytest.raises(ValueError, match="do not fit together"):
        replay(federation, journals, data)


def test_a_replay_did_not_say_that_a_journal_lacks_the_steps_that_neighbours_began_with_its_site(federation):
    def journal(steps, peer):
        return [Started(1, 0), *(Began(1, step, 1, ((peer, 1, 1),)) for step in steps), Ended(1, 3, "another")]

    journals = {0: journal(range(3), 1), 1: journal([2], 0)}  # that of site 1 was removed after step 1
    found = replay(federation, journals, data_of_experiment(federation))
    assert [(each.same, each.missing) for each in found] == [(False, 0), (False, 2)]


def test_a_board_does_not_wait_for_what_nobody_offers():
    board = Board({0: [], 1: []})
    with board.turn:
        board.leave()
        with pytest.raises(ValueError, match="do not fit together"):
            board.adopt(1, (0, 0, 5))
    assert threading.active_count() < 50


def test_of_a_run_that_diverged_the_journal_has_the_model_that_training_came_to(federation):
    training = start(federation, 0, data_of_experiment(federation)[0])
    training.state.x.add_(1.0)
    came_to = digest_of(training.state.x[0])
    training.step_number, training.judge.status = 3, "exploded"
    training.keep_last_good()
    assert training.trained == came_to != digest_of(training.state.x[0])


def test_the_journal_has_the_end_before_the_summary_so_no_kill_comes_between(federation, tmp_path, monkeypatch):
    def killed(*arguments):
        raise SystemExit

    training, folder = start(federation, 0, data_of_experiment(federation)[0]), SiteFolder(tmp_path)
    training.step_number = 3
    training.keep_last_good()
    folder.journal, folder.stop = Journal(tmp_path / "journal.jsonl"), SiteStop()
    monkeypatch.setattr(RunFolder, "finish", killed)
    with pytest.raises(SystemExit):
        folder.finish(training, training.averaged_model(), "finished")
    folder.journal.close()
    assert read_journal(tmp_path / "journal.jsonl") == [Ended(0, 3, digest_of(training.state.x[0]))]


def test_a_cut_line_of_a_journal_goes_when_the_site_starts_again(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(Started(0, 0))
    journal.close()
    path.write_bytes(path.read_bytes() + b'{"event": "began", "epo')
    assert read_journal(path) == [Started(0, 0)]
    journal = Journal(path)
    journal.add(Started(last_epoch(path) + 1, 4, (0, 4)))
    journal.close()
    assert read_journal(path) == [Started(0, 0), Started(1, 4, (0, 4))]
    path.write_text("not an event\n")
    with pytest.raises(ValueError, match="line 1, must be an event"):
        read_journal(path)


def test_a_sites_folder_is_read_and_every_tenth_sample_held_out(federation, tmp_path):
    np.save(tmp_path / "inputs.npy", np.arange(80.0).reshape(20, 4))
    np.save(tmp_path / "labels.npy", np.arange(20) % 2)
    own = data_of_site(str(tmp_path), federation, 0)
    assert (len(own.own), len(own.test), own.task.classes) == (18, 2, 3)
    np.save(tmp_path / "labels.npy", np.arange(19) % 2)
    with pytest.raises(ValueError, match="one entry per sample"):
        data_of_site(str(tmp_path), federation, 0)
    np.save(tmp_path / "labels.npy", np.arange(20) / 2)
    with pytest.raises(ValueError, match="whole numbers"):
        data_of_site(str(tmp_path), federation, 0)
    with pytest.raises(ValueError, match="must be a folder"):
        data_of_site(str(tmp_path / "nothing"), federation, 0)
    np.save(tmp_path / "labels.npy", np.arange(20) % 2)
    np.save(tmp_path / "test_inputs.npy", np.zeros((2, 5)))
    np.save(tmp_path / "test_labels.npy", np.zeros(2, int))
    with pytest.raises(ValueError, match="shape of training data"):
        data_of_site(str(tmp_path), federation, 0)
    with pytest.raises(ValueError, match="failed with TypeError"):
        data_of_site("json:loads", federation, 0)


def test_sites_whose_data_make_other_models_are_told_apart_by_their_greeting(federation):
    own = data_of_experiment(federation)[0]
    wider = SiteData(Samples(torch.zeros(9, 7), torch.zeros(9, dtype=torch.int64)), None, own.task, own.sizes)
    one, other = (with_model(federation, start(federation, 0, data)) for data in (own, wider))
    assert one.digest != other.digest
    assert one.file_digest == other.file_digest == federation.digest
    assert one.run_digest == other.run_digest


def test_the_noise_of_a_site_is_drawn_from_a_secret_of_its_own_that_is_kept_for_its_next_start(tmp_path):
    text = TEXT.replace('partition = "iid"', 'partition = "iid"\nprivacy = "gaussian-noise"')
    federation = parse_federation(text)
    data = data_of_experiment(federation)[0]

    def gradient(secret):
        training = start(federation, 0, data)
        use_secret(training, secret)
        return training.oracle(training.state.x)

    assert secret_advice(tmp_path) == ""
    secret = make_secret(tmp_path)
    assert secret_advice(tmp_path) == "; keep its noise.key to yourself"
    assert make_secret(tmp_path) == secret_of(tmp_path) == secret
    assert (tmp_path / "noise.key").stat().st_mode & 0o777 == 0o600
    assert torch.equal(gradient(secret), gradient(secret))
    assert not torch.equal(gradient(secret), gradient(None))  # the seed's, which all sites know
