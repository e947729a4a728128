"""Parameters that stay with their agent: they are trained as if it were alone, and are never sent."""

import pytest
import torch
from torch import nn

import crossgrad as cg
import crossgrad.experiments
from crossgrad.algorithms import ALGORITHMS

AGENTS, STEPS = 4, 5
MANY_GRADIENTS = {  # in one step, between which personal parameters stay
    name for name, make in ALGORITHMS.items() if getattr(make(), "local_steps", 1) > 1
}


class TwoParts(nn.Module):
    """Two linear models that share no loss: squared errors of different columns of the labels."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1, dtype=torch.float64)
        self.body = nn.Linear(3, 2, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.body(x), self.head(x)], dim=1)


def data() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    each = torch.randn(AGENTS, 12, 6, generator=generator, dtype=torch.float64)
    return [(rows[:, :3], rows[:, 3:]) for rows in each]


def sum_of_squares(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (outputs - labels).square().sum(dim=1).mean()


def run(model: nn.Module, agents: list, algorithm: object, graph: object, **options: object) -> cg.Result:
    return cg.fit(
        model, agents, graph=graph, algorithm=algorithm, steps=STEPS, lr=0.02, batch_size=12, loss=sum_of_squares,
        dtype=torch.float64, progress=False, stop_if_diverged=False, **options,
    )  # fmt: skip


def start() -> TwoParts:
    torch.manual_seed(1)
    return TwoParts()


def graph_for(name: str) -> object:
    return cg.chain(AGENTS) if "relay" in name else cg.ring(AGENTS)


def same(part: str, one: nn.Module, other: nn.Module) -> None:
    for a, b in zip(getattr(one, part).parameters(), getattr(other, part).parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - MANY_GRADIENTS))
def test_the_personal_part_goes_as_if_the_agent_were_alone_and_the_shared_part_as_if_there_were_no_other(name):
    """Where the loss is a sum of both parts' losses, each part's trajectory is that of a run of its own."""
    algorithm, agents = ALGORITHMS[name](), data()
    both = run(start(), agents, algorithm, graph_for(name), personal=["head"])
    frozen = start()
    frozen.head.requires_grad_(False)
    shared_only = run(frozen, agents, algorithm, graph_for(name))
    for agent in range(AGENTS):
        same("body", both.agent_model(agent), shared_only.agent_model(agent))
    last = both.records[-1]
    assert last.bytes_sent == shared_only.records[-1].bytes_sent
    lonely = start()
    lonely.body.requires_grad_(False)
    if name != "swarm":  # of which only the pair that meets takes a step
        alone = run(lonely, [agents[0]], algorithm, cg.fully_connected(1))
        same("head", both.agent_model(0), alone.agent_model(0))


@pytest.mark.parametrize("name", sorted(MANY_GRADIENTS))
def test_with_several_gradients_a_step_the_personal_part_learns_and_is_not_sent(name):
    both = run(start(), data(), ALGORITHMS[name](), cg.ring(AGENTS), personal=["head"])
    heads = [both.agent_model(agent).head.weight for agent in range(AGENTS)]
    assert not any(torch.equal(heads[0], head) for head in heads[1:])
    whole = run(start(), data(), ALGORITHMS[name](), cg.ring(AGENTS))
    assert both.records[-1].bytes_sent < whole.records[-1].bytes_sent


def test_what_travels_is_the_shared_part_to_the_byte():
    result = run(start(), data(), cg.DPSGD(), cg.ring(AGENTS), personal="head")
    body = sum(p.numel() for p in start().body.parameters())
    assert result.records[-1].bytes_sent == STEPS * AGENTS * 2 * body * 8


def test_frozen_parameters_never_travel_and_never_change():
    model = start()
    model.head.requires_grad_(False)
    result = run(model, data(), cg.CGA(0.9), cg.ring(AGENTS))
    body = sum(p.numel() for p in model.body.parameters())
    assert result.records[-1].bytes_by_kind["model"] == STEPS * AGENTS * 2 * body * 8
    for agent in range(AGENTS):
        assert torch.equal(result.agent_model(agent).head.weight, model.head.weight)


class WithNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x))


def test_personal_batch_norm_keeps_its_statistics_with_the_agent():
    torch.manual_seed(0)
    model, own = WithNorm(), data()
    shifted = [(x + 10 * agent, y) for agent, (x, y) in enumerate(own)]
    result = run(model, shifted, cg.DPSGD(), cg.ring(AGENTS), personal=["norm"])
    assert result.records[-1].bytes_by_kind.get("buffer", 0) == 0
    for agent, (x, _) in enumerate(shifted):
        expected = x.mean(dim=0) * (1 - 0.9**STEPS)  # every batch is all samples, and the mean begins at 0
        torch.testing.assert_close(result.agent_model(agent).norm.running_mean, expected)


def test_the_averaged_model_is_measured_with_each_agents_own_head_on_its_own_data():
    result = run(start(), data(), cg.DPSGD(), cg.ring(AGENTS), personal=["head"], own_test=data())
    mean_body = {name: sum(result.agent_model(a).body.state_dict()[name] for a in range(AGENTS)) / AGENTS
                 for name in ("weight", "bias")}  # fmt: skip
    model = result.agent_model(2)
    model.body.load_state_dict(mean_body)
    x, y = data()[2]
    with torch.no_grad():
        expected = float((model(x) - y).abs().mean())
    measured = next(values for name, values in result.records[-1].metrics.items() if name.startswith("mae"))
    assert measured.averaged_on_each[2] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("personal", "sentence"), [(["tail"], "'tail' matches none of head.weight"), (["*"], "must share some trainable")]
)
def test_a_pattern_that_fits_nothing_or_everything_is_refused(personal, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(start(), data(), cg.DPSGD(), cg.ring(AGENTS), personal=personal)


FILE = """
agents = 4
data = "digits"
partition = "iid"
model = { name = "mlp", hidden = [5] }
graph = "ring"
algorithm = "dpmsgd"
training = { batch_size = 8, steps = 3, personal = ["*3*"] }
"""


def test_an_experiment_file_names_what_is_personal_and_the_forecast_of_bytes_knows_it():
    experiment = cg.experiments.parse(FILE)
    assert cg.experiments.parse(cg.experiments.to_toml(experiment)) == experiment
    training = experiment.start()
    record = list(training)[-1]
    assert training.model.names[-2:] == ["3.weight", "3.bias"]
    assert record.bytes_sent == 3 * 4 * 2 * (64 * 5 + 5) * 4


def test_a_resumed_run_with_personal_parameters_has_the_same_bits():
    whole = cg.experiments.parse(FILE).start()
    records = list(whole)
    first = cg.experiments.parse(FILE).start()
    first.evaluate()
    first.step()
    second = cg.experiments.parse(FILE).start()
    second.load_state_dict(first.state_dict())
    while not second.finished:
        second.step()
    assert torch.equal(second.state.x, whole.state.x)
    assert records[-1].status == "ok"


def test_an_optimiser_trains_personal_parameters_and_counts_only_the_others():
    torch.manual_seed(0)
    model, (x, y) = start(), data()[0]
    with cg.process_group() as group:
        opt = cg.optim.DPMSGD(model, graph=cg.ring(group.processes), lr=0.02, momentum=0.9, personal=["head"])

        def closure() -> torch.Tensor:
            opt.zero_grad()
            loss = sum_of_squares(model(x), y)
            loss.backward()
            return loss

        for _ in range(STEPS):
            opt.step(closure)
    plain, rule = start(), None
    rule = torch.optim.SGD(plain.parameters(), lr=0.02, momentum=0.9)
    for _ in range(STEPS):
        rule.zero_grad()
        sum_of_squares(plain(x), y).backward()
        rule.step()
    same("head", model, plain)
    same("body", model, plain)
