"""A process that sends something else than its neighbours expect: ROGUE says what."""

import os

import torch

import crossgrad
from crossgrad import wire
from crossgrad.post import Post

ROGUE = os.environ["ROGUE"]
pack, send = wire.pack, Post.send


def wrong(message, label, parts):
    """Step 2 of agent 1 is not what it should be."""
    mine = label.agent == 1 and label.step == 2
    if mine and ROGUE == "step":
        label = label._replace(step=1)
    pack(message, label, parts)
    if mine and ROGUE == "nan":
        wire.parts_of(message, parts)[0][0] = float("nan")
    if mine and ROGUE == "noise":
        message.copy_(torch.randint(256, message.shape, dtype=torch.uint8))


def shorter(post, message, rank, tag):
    """A message that is cut off."""
    return send(post, message[:72] if ROGUE == "short" and post.rank == 1 else message, rank, tag)


if __name__ == "__main__":
    torch.set_num_threads(1)
    wire.pack, Post.send = wrong, shorter
    with crossgrad.process_group() as group:
        torch.manual_seed(group.rank)
        inputs, labels, model = torch.randn(8, 3), torch.arange(8) % 2, torch.nn.Linear(3, 2)
        if ROGUE == "loss" and group.rank == 1:
            inputs[0, 0] = float("nan")
        opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.1, momentum=0.9)

        def closure():
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss

        for _ in range(5):
            opt.step(closure)
