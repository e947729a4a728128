"""CGA's direction: golden values, the conditions of optimality, and what happens when a QP cannot be solved."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.algorithms.aggregation import DIAGNOSTICS, RELEASED, Mean, Projection

GOLDEN = [
    ((1.0, 0.0), [(-1.0, 1.0), (0.5, 1.0)], Projection(), (0.5, 0.5)),
    ((1.0, 0.0), [(-1.0, 1.0), (0.5, 1.0)], Projection(margin=0.5), (0.75, 1.0)),
    ((1.0, 0.0), [(-1.0, 1.0), (0.5, 1.0)], Projection(margin=0.5, weighted=True), (0.25, 1 / 3)),
    ((1.0, 0.0), [(1.0, 0.1), (1.0, -0.1)], Projection(), (1.0, 0.0)),
    ((1.0, 0.0), [(1.0, 0.1), (1.0, -0.1)], Projection(margin=0.5), (2.0, 0.0)),
    ((1.0, 0.0), [(1.0, 0.1), (1.0, -0.1)], RELEASED, (2 / 3, 0.0)),
    ((1.0, 0.0), [(-1.0, 1.0), (0.5, 1.0)], Mean(), (0.5 / 3, 2 / 3)),
]

NAMES = [diagnostic.name for diagnostic in DIAGNOSTICS]


@pytest.mark.parametrize(("g", "G", "aggregate", "expected"), GOLDEN)
def test_golden_values(g, G, aggregate, expected):
    pi = torch.full((1, len(G) + 1), 1 / 3, dtype=torch.float64)
    z, _ = aggregate(torch.tensor([g], dtype=torch.float64), torch.tensor([G], dtype=torch.float64), pi, [2])
    torch.testing.assert_close(z, torch.tensor([expected], dtype=torch.float64), rtol=1e-9, atol=1e-9)


def case(agents, slots, size, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    g = torch.randn(agents, size, generator=generator, dtype=dtype)
    G = torch.randn(agents, slots, size, generator=generator, dtype=dtype)
    return g, G, torch.full((agents, slots + 1), 1 / (slots + 1), dtype=dtype)


@given(st.integers(1, 4), st.integers(0, 6), st.integers(1, 9), st.integers(0, 999))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_neighbours_loss_rises_and_the_direction_never_grows(agents, slots, size, seed):
    g, G, pi = case(agents, slots, size, seed)
    z, diagnostics = Projection()(g, G, pi, [size])
    slack = torch.einsum("rkd,rd->rk", G, z)
    scale = G.norm(dim=2) * g.norm(dim=1, keepdim=True)
    assert bool((slack >= -1e-7 * scale).all())
    assert bool((z.norm(dim=1) <= g.norm(dim=1) * (1 + 1e-9)).all())
    assert diagnostics.shape == (agents, len(DIAGNOSTICS))
    assert float(diagnostics[:, NAMES.index("fallbacks")].sum()) == 0


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1.0, 1e8, 1e18])
def test_scaling_all_gradients_scales_the_direction(scale):
    g, G, pi = case(3, 4, 6, 0)
    z, _ = Projection()(g, G, pi, [6])
    scaled, _ = Projection()(scale * g, scale * G, pi, [6])
    torch.testing.assert_close(scaled / scale, z, rtol=1e-7, atol=1e-9)


def test_float32_gradients_are_multiplied_in_float64():
    g, G, pi = case(2, 3, 200_000, 1, torch.float32)
    G[0, 0] = -g[0] + 1e-3 * G[0, 0]
    exact, _ = Projection()(g.double(), G.double(), pi.double(), [200_000])
    z, _ = Projection()(g, G, pi, [200_000])
    torch.testing.assert_close(z.double(), exact, rtol=1e-4, atol=1e-5)


def test_spare_slots_constrain_nothing():
    g, G, pi = case(2, 3, 5, 2)
    wide = torch.cat([G, torch.zeros(2, 2, 5).double()], dim=1)
    padded = torch.cat([pi, torch.zeros(2, 2).double()], dim=1)
    for aggregate in (Projection(), Mean(), RELEASED, Projection(margin=0.5)):
        torch.testing.assert_close(aggregate(g, wide, padded, [2, 3])[0], aggregate(g, G, pi, [2, 3])[0])


def test_a_projection_per_tensor_projects_each_tensor_alone():
    g, G, pi = case(2, 3, 7, 3)
    z, _ = Projection(per_tensor=True)(g, G, pi, [3, 4])
    for piece in (slice(0, 3), slice(3, 7)):
        alone, _ = Projection()(g[:, piece], G[:, :, piece], pi, [piece.stop - piece.start])
        torch.testing.assert_close(z[:, piece], alone)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_answer_that_is_not_finite_leaves_the_own_gradient_and_is_counted(bad):
    g, G, pi = case(3, 2, 4, 4)
    G[1, 0, 2] = bad
    z, diagnostics = Projection()(g, G, pi, [4])
    assert torch.equal(z[1], g[1])
    assert diagnostics[:, NAMES.index("fallbacks")].tolist() == [0, 1, 0]
    assert bool(z.isfinite().all())


def test_diagnostics_say_how_the_projection_went():
    g = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]).double()
    G = torch.tensor([[[-1.0, 1.0]], [[1.0, 0.0]], [[-1.0, 0.0]]]).double()  # binds, does not, is opposed
    _, diagnostics = Projection()(g, G, torch.full((3, 2), 0.5).double(), [2])
    named = {name: diagnostics[:, i].tolist() for i, name in enumerate(NAMES)}
    assert named["active"] == [1.0, 0.0, 1.0]
    assert named["shrinkage"] == pytest.approx([0.5**0.5, 1.0, 0.0], abs=1e-6)
    assert named["cosine"] == pytest.approx([-(0.5**0.5), 1.0, -1.0])
    assert named["stalled"] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("aggregate", [Projection(), Projection(per_tensor=True), RELEASED, Mean()])
def test_the_cosine_is_the_mean_over_the_answers_that_are_there(aggregate):
    g, G, pi = case(2, 3, 7, 5)
    G[0, 1] = 0.0
    each = torch.nn.functional.cosine_similarity(g[:, None], G, dim=2)
    expected = torch.stack([each[0, [0, 2]].mean(), each[1].mean()])
    diagnostics = aggregate(g, G, pi, [3, 4])[1]
    torch.testing.assert_close(diagnostics[:, NAMES.index("cosine")], expected)


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_an_impossible_margin_is_refused(margin):
    with pytest.raises(ValueError, match="margin"):
        Projection(margin=margin)


@pytest.mark.parametrize("size", [7, 549, 2410, 40_001])
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_a_direction_has_the_same_bits_wherever_its_agent_lies_in_a_block(size, slots):
    """Spread over processes, an agent has other agents before it."""
    generator = torch.Generator().manual_seed(size + slots)
    g, G = torch.randn(6, size, generator=generator), torch.randn(6, slots, size, generator=generator)
    pi = torch.full((6, slots + 1), 1 / (slots + 1))
    together, diagnostics = Projection()(g, G, pi, [size])
    for rows in (slice(0, 1), slice(1, 3), slice(3, 4), slice(2, 6)):
        apart, own_news = Projection()(g[rows], G[rows], pi[rows], [size])
        assert torch.equal(apart, together[rows])
        assert torch.equal(own_news, diagnostics[rows])
