"""`--processes`: how many suit, and what is refused."""

import pytest
import torch
from torch import nn

from crossgrad._cli.processes import choose_processes
from crossgrad._processes.launcher import how_it_ended
from crossgrad._training.threads import LIGHT_FLOPS, pass_flops
from crossgrad.experiments.files import read


@pytest.mark.parametrize(
    ("changes", "cores", "expected"),
    [
        ([], 8, 1),  # a small model
        (["model=cnn"], 8, 4),  # as many as there are agents
        (["model=cnn"], 2, 2),
        (["model=cnn"], 1, 1),
        (["model.hidden=[1000, 200]"], 2, 2),
    ],
)
def test_auto_takes_one_process_for_small_models_and_one_per_core_for_others(small, changes, cores, expected):
    count, why = choose_processes(read(small, changes), cores)
    assert count == expected
    assert "parameters" in why


@pytest.mark.parametrize("wanted", ["0", "5", "two", "-1", ""])
def test_a_number_of_processes_that_cannot_be_is_refused(crossgrad, small, wanted, is_one_sentence):
    assert is_one_sentence(crossgrad("run", small, f"--processes={wanted}"), "--processes must be auto", "agents, 4")


def test_processes_within_torchrun_are_refused(crossgrad, small, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    answer = crossgrad("run", small, "--processes", "2")
    assert answer.status == 2
    assert "torchrun has done so already" in answer.err


def test_the_work_of_a_pass_is_that_of_its_multiplications():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding="same", bias=False), nn.Flatten(), nn.Linear(8 * 64, 10, bias=False)
    )
    by_hand = 2 * 16 * (3 * 8 * 9 * 64 + 8 * 64 * 10)
    assert pass_flops(model, torch.zeros(1, 3, 8, 8), 16) == by_hand
    embedding_and_output = nn.Sequential(nn.Embedding(50, 20), nn.Linear(20, 50, bias=False))
    assert pass_flops(embedding_and_output, torch.zeros(1, 12, dtype=torch.long), 4) == 2 * 4 * 12 * 2000
    assert pass_flops(nn.Linear(200, 100), torch.zeros(1, 200), 32) < LIGHT_FLOPS


@pytest.mark.parametrize(
    ("statuses", "handed_on", "status", "killed"),
    [
        ({}, [], 0, {}),
        ({0: 143, 1: -15}, [15], 143, {}),  # rank 0 saved and said so
        ({0: -2, 1: -2}, [2, 2], 130, {}),  # both were still importing
        ({0: -15, 1: -15}, [15], 143, {}),
        ({1: -9, 0: -15}, [], 3, {1: 9}),
        ({1: -9, 0: 3}, [15], 3, {1: 9}),
    ],
)
def test_a_signal_that_came_before_a_process_could_save_ended_with_status_0_or_was_called_want_of_memory(
    statuses, handed_on, status, killed
):
    ended = how_it_ended(statuses, handed_on, "")
    assert (ended.status, ended.killed) == (status, killed)
