"""Every way to compute the agents' gradients gives the numbers of the plain loop."""

import copy
import warnings
from functools import partial

import pytest
import torch
from torch import nn

import crossgrad as cg
from crossgrad._gradients.compiled import Compiled
from crossgrad._gradients.oracle import Oracle
from crossgrad._gradients.strategy import Gradients
from crossgrad._training.settings import TrainingSettings
from crossgrad.data import Batches, Pool, Samples
from crossgrad.experiments import files
from crossgrad.models.buffers import Buffers
from crossgrad.models.flat import FlatModel
from crossgrad.tasks import Classification

MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Tanh()),
}


def oracle_of(model, blobs, gradients, samples=(20, 25, 5, 7)):
    """Four agents; the batches of the last two are short."""
    own = [blobs(count, seed=j) for j, count in enumerate(samples)]
    own = [Samples(s.inputs.double(), s.labels) for s in own]
    flat = FlatModel(copy.deepcopy(model).double())
    return Oracle(
        flat, Classification(3), Pool.of(own), Batches(samples, 8, 5), Buffers.of(flat.module, 4), gradients=gradients
    )


def assert_same(found, plain):
    x = plain.model.start + torch.linspace(-0.3, 0.3, 4, dtype=torch.float64)[:, None]
    for active in (torch.zeros(4, dtype=torch.bool), None, torch.tensor([True, False, True, True])):
        torch.testing.assert_close(found(x, active), plain(x, active), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found.losses, plain.losses, rtol=1e-10, atol=1e-12, equal_nan=True)
        if not plain.current:
            continue
        for others, agents in (([0, 2, 1, 0, 3], [1, 1, 0, 2, 3]), ([3], [0]), ([0, 1], [1, 0]), ([], [])):
            models = [x[j] for j in others]
            torch.testing.assert_close(found.cross(models, agents), plain.cross(models, agents), rtol=1e-10, atol=1e-12)
    assert found.evaluations.tolist() == plain.evaluations.tolist()
    torch.testing.assert_close(found.loss_sums, plain.loss_sums, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_one_pass_for_all_equals_the_loop_also_for_batches_of_unlike_sizes(name, blobs):
    torch.manual_seed(0)
    model = MODELS[name]()
    assert_same(oracle_of(model, blobs, Gradients.BATCHED), oracle_of(model, blobs, Gradients.LOOP))


@pytest.fixture
def uncompiled(monkeypatch):
    """Stands in for a compiler whose results are right or wrong as told: what is tested is the check of them."""

    def install(change):
        def compile_(function, dynamic):
            assert dynamic
            return lambda *arguments: change(*function(*arguments))

        monkeypatch.setattr(torch, "compile", compile_)

    return install


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("piece", [1, 2 << 20])
def test_what_is_given_to_the_compiler_equals_the_loop_in_pieces_and_at_once(
    name, piece, blobs, uncompiled, monkeypatch
):
    uncompiled(lambda g, losses: (g, losses))
    monkeypatch.setattr("crossgrad._gradients.compiled.COMPILED_PIECE_BYTES", piece)
    torch.manual_seed(0)
    model = MODELS[name]()
    found = oracle_of(model, blobs, Gradients.COMPILED)
    assert_same(found, oracle_of(model, blobs, Gradients.LOOP))
    assert isinstance(found.batched, Compiled)
    assert found.batched.trusted


def no_compiler(g, losses):
    raise FileNotFoundError("no compiler")


WRONG = {
    "zeros": lambda g, losses: (torch.zeros_like(g), losses),
    "not numbers": lambda g, losses: (g * torch.nan, losses),
    "one in a hundred": lambda g, losses: (1.01 * g, losses),
    "failure": no_compiler,
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_compiler_that_fails_or_errs_is_left_out_with_a_warning(fault, blobs, uncompiled):
    uncompiled(WRONG[fault])
    torch.manual_seed(0)
    model = MODELS["mlp"]()
    with pytest.warns(UserWarning, match="compilation is left out.*(differ|no compiler)"):
        found = oracle_of(model, blobs, Gradients.COMPILED)
    assert_same(found, oracle_of(model, blobs, Gradients.LOOP))


def test_a_compiler_that_errs_for_one_shape_only_is_found_out_there(blobs, uncompiled):
    uncompiled(lambda g, losses: (0 * g if len(g) == 5 else g, losses))
    model = MODELS["mlp"]()
    found, plain = (oracle_of(model, blobs, way, (20, 20, 20, 20)) for way in (Gradients.COMPILED, Gradients.LOOP))
    x = plain.model.start.repeat(4, 1)
    torch.testing.assert_close(found(x), plain(x))
    with pytest.warns(UserWarning, match="gradients differ"):
        five = found.cross([x[0]] * 5, [0, 1, 2, 3, 0])
    torch.testing.assert_close(five, plain.cross([x[0]] * 5, [0, 1, 2, 3, 0]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_pytorch_compiles_equals_the_loop(blobs, backend, monkeypatch):
    """By PyTorch's own compiler: traced and run as it is, or turned into machine code."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    torch.manual_seed(0)
    model = MODELS["mlp"]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of its compiler
        found = oracle_of(model, blobs, Gradients.COMPILED, (20, 20, 20, 20))
        plain = oracle_of(model, blobs, Gradients.LOOP, (20, 20, 20, 20))
        x = plain.model.start + torch.linspace(-0.3, 0.3, 4, dtype=torch.float64)[:, None]
        torch.testing.assert_close(found(x), plain(x), rtol=1e-10, atol=1e-12)
        others, agents = [x[0], x[2], x[1], x[0], x[3]], [1, 1, 0, 2, 3]
        torch.testing.assert_close(found.cross(others, agents), plain.cross(others, agents), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gradients", [Gradients.BATCHED, Gradients.COMPILED])
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(6), nn.Dropout(0.5)])
def test_what_cannot_be_batched_is_refused_where_it_was_asked_for(gradients, layer, blobs):
    model = nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 3))
    with pytest.raises(ValueError, match=r"without buffers or random layers.*Use 'auto' or 'loop'"):
        oracle_of(model, blobs, gradients)


@pytest.mark.parametrize(
    ("model", "shape", "batched"),
    [
        (cg.models.ReleasedCNN(), (1, 8, 8), True),
        (cg.models.ReleasedCNN(), (1, 28, 28), False),
        (cg.models.MLP((32,)), (1, 28, 28), True),
        (cg.models.MLP((200,)), (1, 28, 28), False),
    ],
)
def test_small_models_are_batched_of_their_own_accord_and_others_not(model, shape, batched):
    own = [Samples(torch.randn(4, *shape), torch.arange(4))]
    flat = FlatModel(model.build(shape, 10))
    oracle = Oracle(flat, Classification(3), Pool.of(own), Batches([4], 2, 0), Buffers.of(flat.module, 1))
    assert (oracle.batched is not None) == batched


def test_a_deterministic_run_takes_one_gradient_at_a_time():
    with pytest.raises(ValueError, match="one gradient at a time"):
        TrainingSettings(steps=1, deterministic=True, gradients=Gradients.BATCHED)
    for gradients in (Gradients.AUTO, Gradients.LOOP):
        TrainingSettings(steps=1, deterministic=True, gradients=gradients)


def test_an_experiment_says_how_gradients_are_computed():
    text = """partition = "iid"\nmodel = "mlp"\ngraph = "ring"\nalgorithm = "cga"\ntraining = { steps = 1 }"""
    assert files.parse(text).settings().gradients is Gradients.AUTO
    told = files.parse(text, ["training.gradients=loop"])
    assert told.settings().gradients is Gradients.LOOP
    assert told.start().passes == "gradients: one by one."
    assert files.parse(text).start().passes == "gradients: all in one pass."
    assert files.parse(files.to_toml(told)) == told
    with pytest.raises(ValueError, match=r"training.gradients must be 'auto', 'loop', 'batched' or 'compiled'"):
        files.parse(text, ["training.gradients=fast"])
    with pytest.raises(ValueError, match="one gradient at a time"):
        files.parse(text, ["training.gradients=batched", "training.deterministic=true"])
