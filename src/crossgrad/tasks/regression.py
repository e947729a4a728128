"""Numbers to predict."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import huber_loss, l1_loss, mse_loss, smooth_l1_loss

from crossgrad.tasks.classification import describe_labels
from crossgrad.tasks.metric import Metric
from crossgrad.tasks.metrics import OF_NUMBERS
from crossgrad.tasks.outputs import check_tensor
from crossgrad.tasks.task import Loss, Task

# Losses of PyTorch that compare (n, 1) with (n,) number by number, n x n times.
CROSSWISE = (mse_loss, l1_loss, smooth_l1_loss, huber_loss)
CROSSWISE_MODULES = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


@dataclass(frozen=True)
class Regression(Task):
    """Each sample has one or several numbers to predict: labels are floating point, outputs of the same shape.

    Args:
        outputs: how many numbers each sample has.
        loss: a function of outputs and labels that returns the mean loss of the samples; the squared error by default.
        metrics: what is measured on test data.
    """

    outputs: int = 1
    loss: Loss = mse_loss
    metrics: tuple[Metric, ...] = OF_NUMBERS

    def check_labels(self, labels: Any) -> None:
        if not isinstance(labels, Tensor) or not labels.is_floating_point():
            raise ValueError(
                f"numbers to regress on must be floating point; found {describe_labels(labels)}. Convert them by "
                "y.float(), or pass another task."
            )

    def check_outputs(self, outputs: Any, labels: Any) -> None:
        crosswise = self.loss in CROSSWISE or isinstance(self.loss, CROSSWISE_MODULES)
        if check_tensor(outputs).shape != labels.shape and crosswise:
            classes = labels.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] > 1
            remedy = (
                "If the labels are classes, convert them by y.long()."
                if classes
                else "Reshape the labels, for instance by y[:, None], or the output, by squeeze(1)."
            )
            raise ValueError(
                f"the model must return numbers of the labels' shape {tuple(labels.shape)}; found "
                f"{tuple(outputs.shape)}, which PyTorch would compare crosswise. {remedy}"
            )

    def predictions(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        return outputs, labels

    def kinds(self, labels: Any) -> NDArray[Any]:
        """The first number of each sample."""
        numbers: NDArray[Any] = (labels.flatten(1)[:, 0] if labels.ndim > 1 else labels).cpu().numpy()
        return numbers
