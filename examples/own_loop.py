"""A training loop of your own, one agent per process: torchrun --nproc-per-node 4 examples/own_loop.py"""

import torch

import crossgrad

with crossgrad.process_group() as group:
    digits = crossgrad.load("digits")
    mine = digits.train.labels % group.processes == group.rank  # digits that only this agent sees
    own = torch.utils.data.TensorDataset(digits.train.inputs[mine], digits.train.labels[mine])
    torch.manual_seed(0)  # all processes start from the same model
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    opt = crossgrad.optim.CGA(model, graph=crossgrad.ring(group.processes), lr=0.05, momentum=0.9)
    for _epoch in range(5):
        for inputs, labels in group.in_step(torch.utils.data.DataLoader(own, batch_size=32, shuffle=True)):

            def closure():
                opt.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                loss.backward()
                return loss

            opt.step(closure)
    right = group.averaged(model)(digits.test.inputs).argmax(dim=1) == digits.test.labels
    if group.is_rank_0:
        print(f"the averaged model of {group.processes} agents is right on {right.double().mean():.1%} of the test set")
