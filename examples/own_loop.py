"""A training loop of one's own, one agent per process: torchrun --nproc-per-node 4 examples/own_loop.py"""

import torch
from torch.utils.data import DataLoader, TensorDataset

import crossgrad

with crossgrad.process_group() as group:
    data = crossgrad.load("digits")
    mine = data.train.labels % group.processes == group.rank  # digits that no other agent sees
    loader = DataLoader(TensorDataset(data.train.inputs[mine], data.train.labels[mine]), batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.05, momentum=0.9)
    for _epoch in range(5):
        for inputs, labels in group.in_step(loader):

            def closure(inputs=inputs, labels=labels):
                opt.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                loss.backward()
                return loss

            opt.step(closure)
    right = group.averaged(model)(data.test.inputs).argmax(dim=1) == data.test.labels
    print(f"agent {group.rank}: the averaged model is right on {right.double().mean():.1%} of the test set")
