"""Trajectories of the authors' own programs, on the same quadratics and graph, in float64.

`trajectories.json` has numbers only: what their public code printed after 1, 5 and 20 steps on a ring of 5 agents whose
gradients are H_i x - c_i, and where it came from. CGA's have a problem of their own: three parameter tensors, of which
some agents' gradients are exactly zero in places.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from crossgrad import graphs
from crossgrad.algorithms import (
    BEER,
    CHOCO,
    D2,
    GUT,
    NGC,
    AdaGossip,
    DecentLaM,
    GradientTracking,
    MomentumTracking,
    MoTEF,
    QGAdam,
    QGDSGDm,
    comp_ngc,
    exact_diffusion,
    released_cga,
    released_comp_cga,
)
from crossgrad.codecs import Exact, TopK

THEIRS = json.loads(Path(__file__).with_name("trajectories.json").read_text())

OURS = {
    "takezawa-momentum-tracking": MomentumTracking(0.8),
    "takezawa-decentlam": DecentLaM(0.8),
    "takezawa-qg-dsgdm": QGDSGDm(0.8, mu=1 - 0.8),
    "lin-qg-dsgdm": QGDSGDm(0.8),
    "lin-qg-dsgdm-nesterov": QGDSGDm(0.8, nesterov=True),
    "lin-qg-adam": QGAdam((0.9, 0.99), gradient_weight=1.0),
    "lin-d2": D2(lazy=0),
    "relay-exact-diffusion": exact_diffusion(),
    "relay-gradient-tracking": GradientTracking(),
    "gut": GUT(0.3),
    "ngc-alpha0": NGC(0, 0.8),
    "ngc-alpha1": NGC(1, 0.8),
    "ngc-alpha0-nesterov": NGC(0, 0.8, nesterov=True),
    "ngc-alpha1-nesterov": NGC(1, 0.8, nesterov=True),
    "ngc-alpha0.5": NGC(0.5, 0.8),
    "ngc-alpha0-qgm": NGC(0, 0.8, quasi_global=True),
    "ngc-alpha1-qgm": NGC(1, 0.8, quasi_global=True),
    "compngc-alpha1": comp_ngc(0.8),
    "choco-identity": CHOCO(Exact(), 0.4),
    "choco-top": CHOCO(TopK(0.5), 0.4),
    "adagossip-identity": AdaGossip(Exact(), 0.05),
    "adagossip-top": AdaGossip(TopK(0.5), 0.05),
    "beer-identity": BEER(Exact(), 0.4),
    "beer-top": BEER(TopK(0.5), 0.4),
    "motef-identity": MoTEF(Exact(), 0.4, share=0.3),
    "motef-top": MoTEF(TopK(0.5), 0.4, share=0.3),
}


def test_no_recorded_trajectory_is_left_out():
    assert sorted(OURS) == sorted(THEIRS["methods"])


@pytest.mark.parametrize("name", OURS)
def test_steps_equal_those_of_the_authors(world, name):
    w = world(graphs.ring(5))
    A = w.grad.A = np.array(THEIRS["H"])
    w.grad.b = np.linalg.solve(A, np.array(THEIRS["c"])[:, :, None])[:, :, 0]
    w.grad.sizes = (A.shape[1],)
    x0 = torch.tensor(THEIRS["x0"], dtype=torch.float64).repeat(5, 1)
    states = w.run(OURS[name], 20, THEIRS["lr"], x0)
    for step, x in THEIRS["methods"][name]["x"].items():
        np.testing.assert_allclose(states[int(step)].x.numpy(), x, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["cga-released", "compcga-released"])
def test_the_released_presets_take_the_steps_of_the_released_program(world, name):
    problem, theirs = THEIRS["cross_gradients"]["problem"], THEIRS["cross_gradients"]["methods"][name]
    w = world(graphs.ring(5))
    A = w.grad.A = np.array(problem["H"])
    c = np.array(problem["c"])
    w.grad.b = (np.linalg.pinv(A) @ c[:, :, None])[:, :, 0]  # c lies in the range of A: both are zero in the same rows
    w.grad.sizes = tuple(problem["sizes"])
    x0 = torch.tensor(problem["x0"], dtype=torch.float64).repeat(5, 1)
    preset = {"cga-released": released_cga, "compcga-released": released_comp_cga}[name]
    states = w.run(preset(theirs["options"]["momentum"]), 56, problem["lr"], x0)
    for step, x in theirs["x"].items():
        # Their QP has 1e-12 on its diagonal, which shows as gradients become small; with 1e-14, a tenth of this.
        np.testing.assert_allclose(states[int(step)].x.numpy(), x, rtol=0, atol=1e-10 if int(step) <= 20 else 1e-8)
