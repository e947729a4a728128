"""Schedulers of torch.optim as step sizes."""

import pytest
import torch
from torch.optim import lr_scheduler

from crossgrad import TorchSchedule


def test_a_scheduler_that_ends_after_a_number_of_steps_failed_at_the_first():
    schedule = TorchSchedule(lambda optimiser: lr_scheduler.OneCycleLR(optimiser, max_lr=0.1, total_steps=10), lr=0.1)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    theirs = lr_scheduler.OneCycleLR(optimiser, max_lr=0.1, total_steps=10)
    for epoch in range(10):
        assert schedule(epoch + 0.5, done=0.0) == optimiser.param_groups[0]["lr"]
        optimiser.step()
        theirs.step()
    with pytest.raises(ValueError, match="stepped once per local epoch, 11 times by now; its scheduler OneCycleLR"):
        schedule(11.5, done=0.0)


def test_a_scheduler_that_wants_a_loss_is_named():
    schedule = TorchSchedule(lr_scheduler.ReduceLROnPlateau)
    with pytest.raises(ValueError, match="ReduceLROnPlateau refuses"):
        schedule(1.0, done=0.0)
