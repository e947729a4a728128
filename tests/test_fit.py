"""Options of `fit`, and a result that lives on."""

import json
import os
import signal
import sys
import warnings
from types import ModuleType, SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import crossgrad as cg
from crossgrad._training.torch_schedule import as_schedule


def data(samples=60):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(samples, 4, generator=generator)
    return X, (X[:, 0] > 0).long()


def fitted(**options):
    torch.manual_seed(0)
    defaults = {"graph": cg.ring(3), "steps": 12, "evaluate_every": 4, "algorithm": cg.DPSGD(), "test": data()}
    return cg.fit(nn.Linear(4, 2), data(), **(defaults | options))


# Step sizes


def test_a_function_of_the_epoch_is_a_schedule():
    records = fitted(lr=lambda epoch: 0.1 / (1 + epoch), epochs=3, steps=None, batch_size=20).records
    assert [record.lr for record in records] == [pytest.approx(0.1 / (1 + record.epoch)) for record in records]


def test_a_scheduler_of_torch_is_stepped_once_per_epoch():
    schedule = cg.TorchSchedule(lambda opt: torch.optim.lr_scheduler.ExponentialLR(opt, 0.5), lr=0.2)
    records = fitted(lr=schedule, epochs=3, steps=None, batch_size=20, evaluate_every=1).records
    assert [record.lr for record in records] == [pytest.approx(0.2 * 0.5 ** int(record.epoch)) for record in records]


def test_a_scheduler_that_has_its_optimiser_already_is_refused_with_a_way_out():
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with pytest.raises(TypeError, match="TorchSchedule"):
        as_schedule(torch.optim.lr_scheduler.StepLR(optimiser, 3))
    with pytest.raises(TypeError, match="found str"):
        as_schedule("cosine")


# Where a run starts


def test_a_run_starts_from_a_given_state_dict():
    start = nn.Linear(4, 2).state_dict()
    result = fitted(start=start, steps=1, lr=1e-12)
    torch.testing.assert_close(result.model.weight.detach(), start["weight"])


def test_a_state_dict_of_another_model_is_refused():
    with pytest.raises(ValueError, match=r"bias is \(2,\) there and \(3,\) here, and 2 differ"):
        fitted(start=nn.Linear(4, 3).state_dict())


def test_a_share_of_every_agents_samples_is_held_out_for_validation():
    result = fitted(validation=0.25, patience=2)
    assert [len(own) for own in result.training.agents] == [15, 15, 15]
    assert [len(own) for own in result.training.validation] == [5, 5, 5]
    assert all("validation_loss" in record.diagnostics for record in result.records)


def test_a_share_that_leaves_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="nothing to train on"):
        cg.fit(nn.Linear(4, 2), data(3), graph=cg.ring(3), steps=1, validation=0.5)


# Who is told


def test_callbacks_see_every_step_and_every_record():
    steps, records = [], []
    fitted(on_step=lambda training: steps.append(training.step_number), on_record=records.append)
    assert steps == list(range(1, 13))
    assert [record.step for record in records] == [0, 4, 8, 12]


def test_a_bar_is_shown_where_it_is_asked_for(capsys):
    fitted(progress=True)
    assert "12/12" in capsys.readouterr().out


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    fitted()
    assert capsys.readouterr() == ("", "")


def test_a_notebook_without_ipywidgets_showed_a_warning_and_no_progress(monkeypatch):
    shown = []

    def display(content, raw, display_id):
        assert raw
        assert display_id
        shown.append(content["text/plain"])
        return SimpleNamespace(update=lambda new, raw: shown.append(new["text/plain"]))

    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    result = fitted()
    steps = result.training.step_number
    assert f" 0/{steps} " in shown[0]
    assert f" {steps}/{steps}  loss {result.records[-1].loss:.3f}  accuracy" in shown[-1]


# The result


def test_a_result_says_in_a_line_what_came_out():
    assert repr(fitted()).startswith("<Result of 3 agents: finished after 12 steps, loss 0.")


def test_a_saved_model_has_the_bits_of_the_averaged_one(tmp_path):
    result = fitted()
    result.save(tmp_path / "model.safetensors")
    loaded = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(value, loaded[name]) for name, value in result.model.state_dict().items())


def test_a_plot_has_the_losses_and_the_accuracy():
    losses, accuracy = fitted().plot().axes
    assert [line.get_label() for line in losses.lines] == ["loss", "test loss"]
    assert accuracy.get_ylabel() == "accuracy of the averaged model"


def test_a_plot_in_a_notebook_was_no_picture():
    assert fitted().plot()._repr_png_().startswith(b"\x89PNG")


def test_records_become_a_table_or_a_sentence_says_what_is_missing():
    result = fitted()
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="pip install pandas"):
            result.to_pandas()
    else:
        assert result.to_pandas()["step"].tolist() == [0, 4, 8, 12]


def stop_at(step):
    def stop(training):
        if training.step_number == step:
            os.kill(os.getpid(), signal.SIGINT)

    return stop


@pytest.fixture(autouse=True)
def signals():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_returns_what_there_is():
    with pytest.warns(UserWarning, match="interrupted after step 5"):
        result = fitted(on_step=stop_at(5))
    assert (result.ended, result.training.step_number, len(result.records)) == ("interrupted", 5, 2)


def test_a_run_in_a_folder_goes_on_where_it_was_interrupted_with_the_same_bits(tmp_path):
    whole = fitted(out=tmp_path / "whole", progress=False)
    with pytest.warns(UserWarning, match="interrupted after step 5"):
        fitted(out=tmp_path / "run", on_step=stop_at(5))
    result = fitted(out=tmp_path / "run")
    assert (result.ended, result.folder) == ("finished", tmp_path / "run")
    assert torch.equal(result.model.weight, whole.model.weight)
    assert [record.step for record in result.records] == [record.step for record in whole.records]
    lines = [(tmp_path / name / "records.jsonl").read_text().splitlines() for name in ("run", "whole")]
    assert [json.loads(line) | {"seconds": 0} for line in lines[0]] == [
        json.loads(line) | {"seconds": 0} for line in lines[1]
    ]


def test_a_folder_of_another_run_is_refused(tmp_path):
    with pytest.warns(UserWarning, match="interrupted"):
        fitted(out=tmp_path, on_step=stop_at(5))
    with pytest.raises(ValueError, match="holds another"):
        fitted(out=tmp_path, lr=0.5)


def test_a_folder_of_fit_can_be_reported_and_not_be_resumed_by_command(tmp_path, crossgrad):
    fitted(out=tmp_path / "run")
    status, _, err = crossgrad("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert (status, err) == (0, "")
    status, _, err = crossgrad("resume", tmp_path / "run")
    assert status == 2
    assert "was made by crossgrad.fit" in err


def test_a_diverged_run_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(lr=1000.0, loss=lambda output, labels: output.square().mean() ** 2, steps=60)
    assert any("the run diverged" in str(warning.message) for warning in caught)
