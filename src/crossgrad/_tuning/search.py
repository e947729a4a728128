"""Which settings are tried next: the grid, points beyond an edge where the best one lies, and proposals of Optuna."""

from dataclasses import dataclass

from crossgrad._tuning.space import Point, Space

DIVERGED_SCORE = -1.0  # the score of a run that diverged: below every accuracy
MORE_TRIALS = 4  # at most, beyond the budget, while the best lies at an edge
OPTUNA_MISSING = (
    "trials beyond the grid need Optuna; it is not installed. Install it by `pip install 'crossgrad[tune]'`."
)


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and their score: the higher, the better."""

    point: Point
    score: float


def best_of(trials: list[Trial]) -> Trial:
    """The trial with the highest score; of equal ones (such as all diverged) that with the smallest step size."""
    return max(trials, key=lambda trial: (trial.score, -trial.point.lr))


def at_edge(space: Space, trials: list[Trial]) -> bool:
    """Whether the best trial lies at an edge of what was tried."""
    return space.beyond(best_of(trials).point, [trial.point for trial in trials]) is not None


def next_points(space: Space, trials: list[Trial], budget: int, seed: int) -> list[Point]:
    """The points to try next: several if they do not depend on each other, none once the search is done.

    The budget counts all trials, those beyond an edge too. Only a best trial that lies at an edge when the budget is
    used up gets a few more.
    """
    tried = [trial.point for trial in trials]
    if missing := [point for point in space.grid() if point not in tried]:
        return missing
    further = space.beyond(best_of(trials).point, tried)
    if further is not None:
        return [further] if len(trials) < budget + MORE_TRIALS else []
    if len(trials) >= budget:
        return []
    proposed = _proposed(space, trials, seed)
    return [] if proposed is None else [proposed]


def check_optuna() -> None:
    """Raise unless Optuna is installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ValueError(OPTUNA_MISSING) from None


def _proposed(space: Space, trials: list[Trial], seed: int) -> Point | None:
    """The untried point nearest to the proposal of Optuna's tree-structured Parzen estimator; None if there is none.

    The study is made anew from the trials, so that an interrupted search proposes the same points when it goes on.
    """
    check_optuna()
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

    tried = [trial.point for trial in trials]
    low, high = min(point.lr for point in tried), max(point.lr for point in tried)
    momenta = sorted({point.momentum for point in tried if point.momentum is not None})
    free = [Point(lr, m) for lr in range(low, high + 1) for m in momenta or (None,) if Point(lr, m) not in tried]
    if not free:
        return None
    distributions: dict[str, BaseDistribution] = {"lr": IntDistribution(low, high)}
    if len(momenta) > 1:
        distributions["momentum"] = CategoricalDistribution(momenta)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed + len(trials), n_startup_trials=1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in trials:
        params = {name: getattr(trial.point, name) for name in distributions}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=trial.score))
    named = study.ask(distributions).params
    wanted = Point(named["lr"], named.get("momentum", momenta[0] if momenta else None))
    return min(free, key=lambda point: (abs(point.lr - wanted.lr) + (point.momentum != wanted.momentum), point.lr))
