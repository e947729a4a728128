"""Trajectories of the authors' own programs, on the same quadratics and graph, in float64.

`trajectories.json` has numbers only: what their public code printed after 1, 5 and 20 steps on a ring of 5 agents whose
gradients are H_i x - c_i, and where it came from.
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
    QGAdam,
    QGDSGDm,
    comp_ngc,
    exact_diffusion,
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
    "compngc-alpha1": comp_ngc(0.8),
    "choco-identity": CHOCO(Exact(), 0.4),
    "choco-top": CHOCO(TopK(0.5), 0.4),
    "adagossip-identity": AdaGossip(Exact(), 0.05),
    "adagossip-top": AdaGossip(TopK(0.5), 0.05),
    "beer-identity": BEER(Exact(), 0.4),
    "beer-top": BEER(TopK(0.5), 0.4),
}


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
