"""The metrics that are known by name.

A metric that is added here to METRICS and to the metrics of a task is in all records, tables, SQL and the page.

n: things predicted, C: classes, L: labels of a multi-label task, where scores and targets are both (n, L).
"""

from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import Tensor

from crossgrad._registry.registry import Registry
from crossgrad.tasks.metric import Metric, named_metric, pair

MAX_CONFUSED_CLASSES = 2000  # rows and columns of a confusion matrix


def right_by_class(scores_nC: Tensor, targets_n: Tensor) -> Tensor:
    """How many samples of each class there are, and how many of them have their class as the highest score: (2, C)."""
    classes, right = scores_nC.shape[1], targets_n[scores_nC.argmax(dim=1) == targets_n]
    return torch.stack([torch.bincount(part, minlength=classes) for part in (targets_n, right)])


def confusion(scores: Tensor, targets: Tensor) -> Tensor:
    """Counts by true class (row) and predicted class (column); of several labels, (L, 2, 2) by label."""
    if scores.shape == targets.shape:
        predicted, true = (scores > 0).long(), (targets > 0.5).long()
        pairs = torch.nn.functional.one_hot(2 * true + predicted, 4).sum(dim=0)
        return pairs.reshape(-1, 2, 2).cpu()
    classes = scores.shape[1]
    if classes > MAX_CONFUSED_CLASSES:
        raise ValueError(
            f"metrics by pairs of classes need at most {MAX_CONFUSED_CLASSES} classes; found {classes}. Leave out "
            "balanced_accuracy, macro_f1, mean_iou and confusion."
        )
    counts = torch.bincount(targets * classes + scores.argmax(dim=1), minlength=classes**2)
    return counts.reshape(classes, classes).cpu()


def right_in_top(k: int, scores_nC: Tensor, targets_n: Tensor) -> Tensor:
    """How many targets are among the k highest scores, and of how many."""
    top = scores_nC.topk(min(k, scores_nC.shape[1]), dim=1).indices
    return torch.tensor([int((top == targets_n[:, None]).any(dim=1).sum()), len(targets_n)])


def surprise(scores_nC: Tensor, targets_n: Tensor) -> Tensor:
    """The sum of -ln p(target), and of how many."""
    each = torch.nn.functional.cross_entropy(scores_nC.double(), targets_n, reduction="sum")
    return torch.stack([each.cpu(), torch.tensor(float(len(targets_n)), dtype=torch.float64)])


def squares(scores: Tensor, targets: Tensor) -> Tensor:
    """For each number to predict: count, sums of y, y^2, (y - f)^2 and |y - f|: (5, k)."""
    f, y = (part.double().reshape(len(part), -1).cpu() for part in (scores, targets))
    return torch.stack([torch.ones_like(y), y, y.square(), (y - f).square(), (y - f).abs()]).sum(dim=1)


def _sum(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum(dim=0)


def _mean_of_known(values: Tensor) -> float:
    """The mean of the values that are not NaN."""
    known = values[~values.isnan()]
    return float(known.mean()) if len(known) else float("nan")


def _accuracy(parts: Sequence[Tensor]) -> float:
    held, right = torch.stack(list(parts)).sum(dim=(0, 2)).tolist()
    return float(right) / held if held else float("nan")


def _class_accuracy(parts: Sequence[Tensor]) -> Tensor:
    counts_2C = torch.stack(list(parts)).sum(dim=0).double().cpu()
    return counts_2C[1] / counts_2C[0]


def _hits(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Hits, misses and false alarms of each class or label."""
    counts = _sum(parts).double()
    if counts.ndim == 3:  # of each label, being there is the class
        return counts[:, 1, 1], counts[:, 1, 0], counts[:, 0, 1]
    hits = counts.diagonal()
    return hits, counts.sum(dim=1) - hits, counts.sum(dim=0) - hits


def _balanced_accuracy(parts: Sequence[Tensor]) -> float:
    hits, misses, _ = _hits(parts)
    return _mean_of_known(hits / (hits + misses))  # NaN for classes that do not occur


def _macro_f1(parts: Sequence[Tensor]) -> float:
    hits, misses, alarms = _hits(parts)
    f1 = 2 * hits / (2 * hits + misses + alarms)
    return float(f1.nan_to_num(0.0).mean()) if _sum(parts).ndim == 3 else _mean_of_known(f1)


def _mean_iou(parts: Sequence[Tensor]) -> float:
    hits, misses, alarms = _hits(parts)
    return _mean_of_known(hits / (hits + misses + alarms))


def _label_accuracy(parts: Sequence[Tensor]) -> float:
    counts = _sum(parts).double()
    return float((counts[:, 0, 0] + counts[:, 1, 1]).sum() / counts.sum())


def _share(parts: Sequence[Tensor]) -> float:
    right, total = _sum(parts).tolist()
    return right / total if total else float("nan")


def _perplexity(parts: Sequence[Tensor]) -> float:
    total = _sum(parts)
    return float((total[0] / total[1]).exp())


def _r2(parts: Sequence[Tensor]) -> float:
    n, y, y2, rest, _ = _sum(parts)
    spread = y2 - y.square() / n
    return _mean_of_known(torch.where(spread > 0, 1 - rest / spread, torch.nan))


def _mean_absolute_error(parts: Sequence[Tensor]) -> float:
    total = _sum(parts)
    return float((total[4] / total[0]).mean())


def _auroc(parts: Sequence[tuple[Tensor, Tensor]]) -> float:
    """The chance that a sample of a class has a higher score for it than one that is not; mean over the classes."""
    scores, targets = (torch.cat([part[k] for part in parts]) for k in (0, 1))
    if scores.shape == targets.shape:
        there = targets > 0.5
    else:
        scores = scores.double().softmax(dim=1)
        there = torch.nn.functional.one_hot(targets, scores.shape[1]).bool()
        if scores.shape[1] == 2:
            scores, there = scores[:, 1:], there[:, 1:]
    columns = zip(scores.double().unbind(dim=1), there.unbind(dim=1), strict=True)
    return _mean_of_known(torch.tensor([_area(score_n, there_n) for score_n, there_n in columns], dtype=torch.float64))


def _area(scores_n: Tensor, there_n: Tensor) -> float:
    """The area under one curve, by ranks (Mann and Whitney); equal scores share their mean rank."""
    yes = int(there_n.sum())
    if yes in (0, len(there_n)):
        return float("nan")
    _, place, counts = torch.unique(scores_n, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(dim=0) - (counts - 1) / 2)[place].double()
    return float((ranks[there_n].sum() - yes * (yes + 1) / 2) / (yes * (len(there_n) - yes)))


@cache
def top_k(k: int) -> Metric:
    """The share of samples whose class is among the k highest scores."""
    return Metric(f"top_{k}", f"top-{k} accuracy", partial(right_in_top, k), _share, percent=True)


ACCURACY = Metric("accuracy", "accuracy", right_by_class, _accuracy, percent=True)
CLASS_ACCURACY = Metric("class_accuracy", "accuracy on each class", right_by_class, _class_accuracy, True, rank=1)
LABEL_ACCURACY = Metric("accuracy", "share of right labels", confusion, _label_accuracy, percent=True)
BALANCED_ACCURACY = Metric("balanced_accuracy", "balanced accuracy", confusion, _balanced_accuracy, percent=True)
MACRO_F1 = Metric("macro_f1", "macro F1", confusion, _macro_f1, percent=True)
MEAN_IOU = Metric("mean_iou", "mean IoU", confusion, _mean_iou, percent=True)
CONFUSION = Metric("confusion", "confusion matrix", confusion, _sum, rank=2)
AUROC = Metric("auroc", "AUROC", pair, _auroc, percent=True)
PERPLEXITY = Metric("perplexity", "perplexity", surprise, _perplexity, higher_is_better=False)
R2 = Metric("r2", "R2", squares, _r2)
MEAN_ABSOLUTE_ERROR = Metric("mae", "mean absolute error", squares, _mean_absolute_error, higher_is_better=False)

OF_CLASSES = (ACCURACY, CLASS_ACCURACY)
OF_NUMBERS = (R2, MEAN_ABSOLUTE_ERROR)
OF_LABELS = (LABEL_ACCURACY, MACRO_F1)
OF_TOKENS = (ACCURACY, PERPLEXITY)
OF_PIXELS = (ACCURACY, MEAN_IOU)

_BUILT_IN = {
    metric.name: metric
    for metric in (
        *(ACCURACY, CLASS_ACCURACY, BALANCED_ACCURACY, MACRO_F1, MEAN_IOU, CONFUSION, AUROC, PERPLEXITY),
        *(R2, MEAN_ABSOLUTE_ERROR, top_k(2), top_k(3), top_k(5)),
    )
}

METRICS: Registry[Metric] = Registry("metric", _BUILT_IN, named_metric)
