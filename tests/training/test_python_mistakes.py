"""Mistakes in Python get a sentence."""

import pytest
import torch
from torch import nn

import crossgrad as cg

DATA = torch.randn(12, 4), torch.arange(12) % 3


@pytest.mark.parametrize("options", [{"batch_size": None}, {"batch_size": 8.0}, {"batch_size": "8"}, {"steps": 3.5}])
def test_a_number_of_samples_or_steps_that_is_not_whole_gave_a_traceback(options):
    with pytest.raises(ValueError, match="must be a whole number"):
        cg.fit(nn.Linear(4, 3), DATA, graph=cg.ring(3), progress=False, **{"steps": 1} | options)


def test_a_torch_device_gave_a_traceback():
    cg.fit(nn.Linear(4, 3), DATA, graph=cg.ring(3), steps=1, progress=False, device=torch.device("cpu"))
