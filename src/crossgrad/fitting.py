"""Train a module on data that is split over agents, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crossgrad._logging.logger import Logger, RunAbout, check_loggers, flat_settings
from crossgrad._logging.logs import Logs
from crossgrad._runs.fit_folder import about_run, all_records, run_in_folder
from crossgrad._runs.fit_result import FitListener, Result
from crossgrad._runs.logged import LoggedListener
from crossgrad._runs.runner import Listener, Stop
from crossgrad._training.arguments import (
    as_algorithm,
    as_augment,
    as_guard,
    as_names,
    as_state,
    check_functions,
    check_kinds,
)
from crossgrad._training.divergence import DivergenceRule
from crossgrad._training.given_data import dealt_data, held_out_data
from crossgrad._training.kept_models import EarlyStopping
from crossgrad._training.numbers import check_switch
from crossgrad._training.schedule import Schedule
from crossgrad._training.settings import TrainingSettings
from crossgrad._training.start import started_from
from crossgrad._training.threads import suitable_threads
from crossgrad._training.torch_schedule import as_schedule
from crossgrad._training.trainer import Training
from crossgrad._training.validate import check_surroundings
from crossgrad.algorithms import Algorithm
from crossgrad.algorithms.gossip_rounds import Gossip
from crossgrad.data import Augment, Partition, PartitionRule, refuse_streams
from crossgrad.graphs import AnyGraph
from crossgrad.graphs.convert import as_graph
from crossgrad.graphs.faults import Faults
from crossgrad.guards import PRIVACY_GUARDS, ROBUST_RULES, Attack, PrivacyGuard, RobustRule
from crossgrad.records.record import Record
from crossgrad.tasks import METRICS, Loss, Task, as_metrics

if TYPE_CHECKING:
    import networkx as nx


def fit(
    model: nn.Module,
    data: Any,
    *,
    graph: AnyGraph | nx.Graph[Any],
    algorithm: Algorithm[Any] | str | None = None,
    partition: PartitionRule | Partition | Sequence[Sequence[int]] | str | None = None,
    test: Any = None,
    lr: float | Schedule | Callable[[float], float] = 0.01,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int = 32,
    evaluate_every: int | None = None,
    seed: int = 0,
    task: Task | str | None = None,
    loss: Loss | None = None,
    faults: Faults | None = None,
    stop_if_diverged: bool = True,
    augment: Augment | str | None = None,
    gossip: Gossip | None = None,
    robust: RobustRule | str | None = None,
    attack: Attack | None = None,
    privacy: PrivacyGuard | str | None = None,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    on_record: Callable[[Record], Any] | None = None,
    on_step: Callable[[Training], Any] | None = None,
    weight_decay: float = 0.0,
    clip_norm: float | None = None,
    micro_batch: int | None = None,
    autocast: bool = False,
    validation: Any = None,
    own_test: Any = None,
    metrics: Any = (),
    patience: int | None = None,
    start: Mapping[str, torch.Tensor] | str | Path | None = None,
    personal: Sequence[str] = (),
    frozen: Sequence[str] = (),
    progress: bool | None = None,
    out: str | Path | None = None,
    log: str | Logger | Sequence[str | Logger] | None = None,
) -> Result:
    """Train a copy of `model` on data that is split over the agents of `graph`.

    Args:
        model: any module; it is not changed. Parameters with `requires_grad=False` stay as they are, are shared by all
            agents and never travel: only trainable parameters and buffers are sent.
        data: (inputs, labels) or a map-style Dataset, dealt out by `partition`; or a list with one of these, or a
            stream (an IterableDataset, a function that returns an iterator), for each agent.
        graph: the communication graph, one node per agent; a networkx graph is converted.
        algorithm: the update rule, or its name; CGA by default.
        partition: how the data is dealt out: a rule, its name, or one list of sample indices per agent; IID by default.
        test: held-out data, as `data`, on which all models are measured; or a list with each agent's own.
        own_test: each agent's own test data: a list with one data set per agent, or the share (0 to 1) of each agent's
            samples to hold out. On it, the agent's own model and the averaged one are measured.
        metrics: what to measure besides the task's own: names (`crossgrad.tasks.METRICS`), `Metric` objects, or a dict
            of functions of scores and targets, or of `torchmetrics` objects, by name.
        lr: the step size: a number, a `Schedule`, a function of the local epoch (or of the epoch and the share of the
            run that is done), or a `TorchSchedule` around a scheduler of torch.optim.
        epochs: length of the training in epochs of the local data; give either this or `steps`.
        steps: length of the training in steps.
        batch_size: samples of a mini-batch of one agent.
        evaluate_every: steps between two evaluations; by default there are 20.
        seed: seed of the partition, the batches and all other randomness.
        task: what is learnt, or its name; by default whole-number labels are classes and floating-point ones are
            regressed on.
        loss: replaces the task's own loss.
        faults: agents that leave and messages that are lost.
        augment: changes the samples of every batch as it is drawn: an `Augment`, or its name, such as "crop-flip".
        gossip: how models are averaged within a step: several rounds, accelerated, compressed; by default one exact
            round.
        robust: what agents do with their neighbours' models in place of averaging them (`crossgrad.guards`).
        attack: simulated hostile agents, to test robust rules.
        privacy: clips every sample's gradient and adds noise (`crossgrad.guards.GaussianNoise`); records then have
            `epsilon`, of the worst agent.
        stop_if_diverged: whether to end a run early, with a warning, when its loss explodes.
        weight_decay: adds weight_decay * x to every gradient, as torch.optim.SGD does.
        clip_norm: the largest norm of a gradient, own or cross; longer ones are scaled down.
        micro_batch: samples of one pass: a batch's gradient is accumulated over several passes, to save memory.
        autocast: compute passes, those of evaluations too, in bfloat16 where PyTorch deems it safe; models and messages
            keep `dtype`.
        validation: data, as `test`, or the share (0 to 1) of each agent's samples to hold out. The models that do best
            on it are the result.
        patience: with validation data, end the run after this many evaluations in a row without a lower loss.
        start: a state dict, or a safetensors file of one, to start from instead of the model's own parameters and
            buffers.
        personal: names, with * and ?, of parameters, buffers or modules that stay with their agent, such as "head" or
            "*norm*": they are trained, and never sent.
        frozen: names, with * and ?, of parameters or modules that are not trained, and never sent.
        dtype: floating-point type of parameters and inputs.
        device: cpu, cuda or cuda:0 and so on.
        on_record: called with every `Record`.
        on_step: called with the `Training` after every step.
        progress: show a bar; by default where output goes to a terminal or a notebook.
        out: a folder to write the run to: records, checkpoints and the model, for `crossgrad report`. If fit is called
            again in the same way, it continues an interrupted run.
        log: where else to send records: "tensorboard", "mlflow", "wandb", "csv", a logger of your own (an object with
            begin, record and end), or several of these.

    Returns:
        The trained models and the records. After Ctrl-C: the results so far, with a warning.

    Raises:
        ValueError: an argument cannot work. The message says what was expected, what was found and what to do.

    >>> import crossgrad as cg
    >>> _ = torch.manual_seed(0)  # of the layer's first weights
    >>> X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] > 0).long()
    >>> result = cg.fit(nn.Linear(4, 2), (X, y), graph=cg.ring(5), partition=cg.ByClass(), test=(X, y), steps=60)
    >>> result.status, result.records[-1].accuracy > 0.9
    ('ok', True)
    """
    check_kinds(model, faults=(faults, Faults), gossip=(gossip, Gossip), attack=(attack, Attack), out=(out, str | Path))
    check_functions(on_record=on_record, on_step=on_step)
    check_switch("stop_if_diverged", stop_if_diverged)
    check_surroundings(model)
    graph, loggers = as_graph(graph), check_loggers(log, out is not None)
    method = (gossip or Gossip()).around(as_algorithm(algorithm))
    settings = TrainingSettings(
        schedule=as_schedule(lr),
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        evaluate_every=evaluate_every,
        seed=seed,
        dtype=dtype,
        device=str(device),
        divergence=DivergenceRule() if stop_if_diverged else None,
        weight_decay=weight_decay,
        clip_norm=clip_norm,
        micro_batch=micro_batch,
        autocast=autocast,
        early_stopping=None if patience is None else EarlyStopping(patience),
        robust=as_guard("robust", robust, ROBUST_RULES, ("__call__",)),
        privacy=as_guard("privacy", privacy, PRIVACY_GUARDS, ("add_noise_", "check", "epsilon")),
        personal=as_names("personal", personal),
        frozen=as_names("frozen", frozen),
    )
    agents, task = dealt_data(data, partition, graph.agents, seed, task, loss)
    if epochs is not None:
        refuse_streams(agents, "epochs is a number of passes over the data, so it (unlike steps)")
    held = held_out_data(agents, test, own_test, validation, seed)
    wanted = as_metrics(metrics, METRICS, task.metrics)
    if wanted and held.test is None and held.own_test is None:
        warnings.warn("metrics are measured on test data; found none. Pass test= or own_test=.", stacklevel=2)
    task = task.with_metrics(wanted)
    model = model if start is None else started_from(model, as_state(start))
    parts = (model, held.agents, method, graph, settings, held.test)
    training = Training(*parts, task, None, faults, held.validation, as_augment(augment), held.own_test, attack)
    about = about_run(training, model, partition)
    with FitListener(training, progress, on_step, on_record) as listener, suitable_threads(training):
        if out is None:
            with Logs(loggers, RunAbout(about["name"], flat_settings(about))) as logs:
                ended = logs.ended = _run_to_end(training, LoggedListener(listener, logs))
        else:
            ended = run_in_folder(training, Path(out), about, listener, save_every=60.0, log=loggers)
    if training.status != "ok":
        warnings.warn(f"the run diverged: {training.reason}. {training.kept}", stacklevel=2)
    elif ended == "interrupted":
        warnings.warn(
            f"the run was interrupted after step {training.step_number}; this is its result so far.", stacklevel=2
        )
    elif training.doubt:
        warnings.warn(f"{training.doubt}.", stacklevel=2)
    training.keep_last_good()
    records = listener.records if out is None else all_records(Path(out), listener.records)
    return Result(records, training.averaged_model(), training, ended, None if out is None else Path(out))


def _run_to_end(training: Training, listener: Listener) -> str:
    """Train to the end, or until the first Ctrl-C; how it ended."""
    with Stop() if current_thread() is main_thread() else nullcontext(Stop()) as stop:
        listener.record(training.evaluate())
        while not training.finished and not stop.wanted:
            training.step()
            listener.step()
            if training.due:
                listener.record(training.evaluate())
    if not training.finished:
        return "interrupted"
    return "finished" if training.status == "ok" else "diverged"
