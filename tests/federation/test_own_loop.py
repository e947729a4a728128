"""Sites that train in loops of their own."""

import subprocess

import pytest
import torch

import crossgrad
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import FILE, Rehearsal

STEPS, LR = 6, 0.05
TEXT = """
name = "wards"
[timing]
lost_after = 20
[experiment]
model = "mlp"
graph = "ring"
algorithm = "dpsgd"
partition = "iid"
training = {{ steps = {steps} }}
[[sites]]
name = "a"
listen = "127.0.0.1:1"
[[sites]]
name = "b"
"""
LOOP = """
import sys
import torch, crossgrad

folder, name, momentum, out = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Linear(3, 2).double()
data = torch.manual_seed(ord(name)) and torch.randn(40, 3).double()
loader = torch.utils.data.DataLoader(data, batch_size=10)
with crossgrad.site(f"{folder}/federation.toml", name, identity=f"{folder}/sites/{name}", out=out) as group:
    opt = crossgrad.optim.DPMSGD(model, graph=group.graph, lr=0.05, momentum=float(momentum))
    for batch in group.in_step(loader):
        def closure():
            opt.zero_grad()
            loss = (model(batch) - 1).square().mean()
            loss.backward()
            return loss
        opt.step(closure)
torch.save(model.state_dict(), f"{out}/model.pt")
"""


@pytest.fixture
def folder(tmp_path):
    Rehearsal.prepare(parse_federation(TEXT.format(steps=STEPS)), tmp_path)
    return tmp_path


@pytest.fixture
def started(forks):
    """Starts the loop of a site in a process of its own."""

    def start(folder, name, momentum):
        command = ["-c", LOOP, folder, name, momentum, folder / f"run-{name}"]
        return forks.start(command, stderr=subprocess.PIPE, text=True)

    return start


def test_two_sites_with_loops_of_their_own_come_to_what_plain_pytorch_comes_to(folder, started):
    processes = [started(folder, name, 0.9) for name in "ab"]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    found = [torch.load(folder / f"run-{name}" / "model.pt") for name in "ab"]

    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2).double() for _ in "ab"]
    models[1].load_state_dict(models[0].state_dict())
    data = []
    for name in "ab":
        torch.manual_seed(ord(name))
        data.append(torch.randn(40, 3).double())
    velocity = [[torch.zeros_like(p) for p in model.parameters()] for model in models]
    for step in range(STEPS):
        for model, own, v in zip(models, data, velocity, strict=True):
            start = 10 * (step % 4)
            gradients = torch.autograd.grad((model(own[start : start + 10]) - 1).square().mean(), model.parameters())
            for each, gradient in zip(v, gradients, strict=True):
                each.mul_(0.9).sub_(LR * gradient)
        with torch.no_grad():
            for p, q, v, w in zip(models[0].parameters(), models[1].parameters(), *velocity, strict=True):
                mean = (p + q) / 2
                p.copy_(mean + v)
                q.copy_(mean + w)
    for state, model in zip(found, models, strict=True):
        for name, value in model.state_dict().items():
            torch.testing.assert_close(state[name], value)


def test_sites_whose_own_loops_have_other_algorithms_refuse_one_another_in_one_sentence(folder, started):
    text = (folder / FILE).read_text()
    (folder / FILE).write_text(text.replace("gather = 600.0", "gather = 4.0"))
    processes = [started(folder, name, momentum) for name, momentum in (("a", 0.9), ("b", 0.5))]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert "must train the same model by the same algorithm; theirs differ" in said
        assert "goes on alone" in said


def test_a_loop_between_sites_refuses_algorithms_that_keep_copies_and_other_graphs(folder):
    with crossgrad.site(folder / FILE, "a", identity=folder / "sites" / "a", out=folder / "run") as group:
        model = torch.nn.Linear(2, 1)
        with pytest.raises(ValueError, match="keeps copies of what its neighbours sent"):
            crossgrad.optim.CHOCO(model, graph=group.graph)
        with pytest.raises(ValueError, match=r"Pass graph=group\.graph"):
            crossgrad.optim.DPSGD(model, graph=crossgrad.fully_connected(2))
        with pytest.raises(ValueError, match="crossgrad federation average"):
            group.averaged(model)
