"""Numbers of other processes that cannot be, at an evaluation: the agent that reported them is named."""

import pytest
import torch

from crossgrad._network.wire import PeerError
from crossgrad._processes.group import SingleProcess
from crossgrad.experiments import files

EXPERIMENT = """
agents = 3
model = { name = "mlp", hidden = [4] }
graph = "ring"
partition = "class"
algorithm = "cga"
training = { steps = 4, batch_size = 8 }
"""


class LastAgentLies(SingleProcess):
    """What the last agent reports in one place of its row is something else."""

    def __init__(self, place: int, value: float) -> None:
        self.place, self.value = place, value

    def gather(self, table_nC, rows=None):
        table = table_nC.clone()
        if len(table) == 3 and table.shape[1] > 10:
            table[2, self.place] = self.value
        return table


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -1.0, 0.5, 3e38])
@pytest.mark.parametrize(("place", "name"), [(0, "samples"), (1, "first_bad_step")])
def test_a_wrong_count_or_step_of_another_process_ended_in_a_traceback_or_was_believed(place, name, value):
    training = files.parse(EXPERIMENT).start(group=LastAgentLies(place, value))
    training.step()
    with pytest.raises(PeerError, match=f"^agent 2 reported {value:g}".replace("+", r"\+") + f" as its {name}"):
        training.evaluate()


def test_what_all_agents_report_is_believed():
    training = files.parse(EXPERIMENT).start(group=LastAgentLies(1, torch.inf))
    training.step()
    assert training.evaluate().status == "ok"
