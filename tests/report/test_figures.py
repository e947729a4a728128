"""The figures show what the records say."""

import matplotlib
import numpy as np
import pytest

from crossgrad._report import figures, selection, series, style
from crossgrad._report.panels import DIVERGED_NOTE
from crossgrad._report.seed_groups import GroupKey, group_by_seed, key_of
from crossgrad._runs.results import RunResult
from crossgrad.records.record import Record

CGA = {"method": "CGA", "variant": "paper", "graph": "ring", "split": "non-IID"}


@pytest.fixture
def run():
    """A run of a few records; `losses` are the averaged model's, and accuracies follow from them."""

    def make(
        losses=(2.0, 1.0, 0.5),
        ended="finished",
        every=10,
        agents=2,
        experiment=None,
        kinds=("model",),
        agents_file=None,
        **labels,
    ):
        records = tuple(
            Record(
                step=every * k,
                epoch=every * k / 5,
                lr=0.01,
                train_loss=None if k == 0 else loss / 2,
                loss=loss,
                test_loss=loss,
                accuracy=1 - loss / 4,
                agent_accuracy=tuple(0.9 - loss / 4 + 0.01 * j for j in range(agents)),
                consensus=0.0,
                bytes_sent=1000 * every * k * len(kinds) * agents,
                bytes_by_kind=dict.fromkeys(kinds, 1000 * every * k * agents),
                bytes_by_agent=(1000 * every * k * len(kinds),) * agents,
                gradients=3 * every * k * agents,
                seconds=float(k),
                diagnostics={"active": 0.5} if labels.get("method") in ("CGA", "CompCGA") else {},
            )
            for k, loss in enumerate(losses)
        )
        summary = {"ended": ended, "status": "ok", "reason": "", "steps": records[-1].step if records else 0}
        ended_with = None if ended == "begun" else summary
        return RunResult("cell", labels, experiment or {}, records, ended_with, {}, agents_file)

    return make


def lines(axes, name):
    """The data of the curve of that name."""
    (line,) = [line for line in axes.get_lines() if line.get_label() == name]
    return line.get_xdata().tolist(), line.get_ydata().tolist()


@pytest.fixture
def grid(run):
    """Two seeds of three methods on two graphs, with 2 and 3 agents, alike and unlike."""
    return [
        run(
            (2.0, 1.0 + seed, 0.5 + agents / 10),
            agents=agents,
            kinds=("model", "gradient") if method == "CGA" else ("model",),
            method=method,
            variant="paper",
            graph=graph,
            split=split,
            seed=str(seed),
        )
        for method in ("CGA", "SGP", "DPMSGD")
        for graph in ("ring", "fully-connected")
        for split in ("non-IID", "IID")
        for agents in (3, 2)
        for seed in (0, 1)
    ]


def test_everything_is_drawn_as_png_and_svg_and_small(grid, tmp_path):
    before = dict(matplotlib.rcParams)
    unlike = [run for run in grid if run.labels["split"] == "non-IID"]
    drawn = figures.draw_all(unlike, tmp_path / "pictures")
    assert dict(matplotlib.rcParams) == before  # the user's own settings are left alone
    assert drawn.skipped == []
    names = [plan.name for plan in figures.FIGURE_PLANS]
    assert [path.name for path in drawn.paths] == [f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    for path in drawn.paths:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
        assert len(content) < 200_000


def test_the_same_runs_give_the_same_bytes(run, tmp_path):
    for name in "ab":
        style.save(figures.loss_by_method(group_by_seed([run(**CGA)])), tmp_path, name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert b"dc:date" not in (tmp_path / "a.svg").read_bytes()


def test_what_the_runs_do_not_allow_is_skipped_with_a_reason(run, tmp_path):
    drawn = figures.draw_all([run(method="SGP", graph="ring", split="IID")], tmp_path)
    assert drawn.paths == []
    assert drawn.skipped == [
        "loss-by-graph: no run reports its share of active constraints, as CGA does.",
        "loss-by-method: there is no run on non-IID data.",
        "accuracy-by-graph: the runs that have ended are not on several graphs.",
        "accuracy-by-agents: the runs that have ended do not differ in their number of agents.",
        "loss-by-cost: there is no run on non-IID data.",
        "agents-and-average: no run that reports its share of active constraints has a test set.",
    ]
    assert len(figures.draw_all([], tmp_path).skipped) == 6
    assert len(figures.draw_all([run((), **CGA)], tmp_path).skipped) == 6


def test_loss_by_graph_is_the_mean_over_seeds_of_both_losses(grid):
    cells = selection.projecting(group_by_seed(grid))
    assert {cell.key.agents for cell in cells} == {2}
    axes = figures.loss_by_graph(cells).axes
    assert [a.get_title() for a in axes[:2]] == ["IID data", "non-IID data"]
    for panel in axes[:2]:
        assert lines(panel, "ring") == ([0, 2, 4], [2.0, 1.5, 0.7])
        assert panel.get_yscale() == "log"
    for panel in axes[2:]:
        x, y = lines(panel, "fully-connected")
        assert x == [0, 2, 4]
        assert np.isnan(y[0])  # nothing was drawn from yet
        assert y[1:] == [0.75, 0.35]


def test_loss_by_method_has_a_column_for_each_graph(grid):
    axes = figures.loss_by_method(selection.non_iid(group_by_seed(grid))).axes
    assert [a.get_title() for a in axes[:2]] == ["fully-connected", "ring"]
    for panel in axes[:2]:
        names = [line.get_label() for line in panel.get_lines()]
        assert names == ["DPMSGD", "SGP", "CGA (paper)"]
        assert lines(panel, "SGP") == ([0, 2, 4], [2.0, 1.5, 0.7])


def test_costs_are_rounds_megabytes_and_gradients_per_agent(grid):
    rounds, megabytes, gradients = figures.loss_by_cost(selection.on_one_graph(group_by_seed(grid))).axes
    assert lines(rounds, "SGP")[0] == [0, 10, 20]
    assert lines(rounds, "CGA (paper)")[0] == [0, 20, 40]  # models out, gradients back
    assert lines(megabytes, "SGP")[0] == pytest.approx([0, 0.01, 0.02])
    assert lines(megabytes, "CGA (paper)")[0] == pytest.approx([0, 0.02, 0.04])
    assert lines(gradients, "SGP")[0] == [0, 30, 60]
    for panel in (rounds, megabytes, gradients):
        assert lines(panel, "CGA (paper)")[1] == [2.0, 1.5, 0.7]


@pytest.mark.parametrize(
    ("agents_file", "experiment", "kinds", "per_step"),
    [
        ({"rounds_per_step": 3}, {}, ("model",), 3),
        ({"rounds_per_step": "many"}, {}, ("model",), 1),
        (None, {"gossip": {"rounds": 4}}, ("model",), 4),
        (None, {}, ("model", "code"), 2),
        (None, {}, ("model",), 1),
    ],
    ids=["declared", "damaged", "older, several rounds", "older, cross-gradients", "older"],
)
def test_rounds_are_those_that_the_run_declared(run, agents_file, experiment, kinds, per_step):
    one = run(agents_file=agents_file, experiment=experiment, kinds=kinds)
    drawn = series.curve_of_seeds([one], series.rounds, lambda r: r.loss)
    assert drawn.x.tolist() == [0, 10 * per_step, 20 * per_step]


def test_figures_of_one_method_are_of_one_that_reports_its_projection(run):
    runs = [run(method=method, graph="ring", split="IID") for method in ("SGP", "CGA", "CompCGA")]
    for named, chosen in ((runs, "CGA"), ([runs[0], runs[2]], "CompCGA")):
        assert [c.key.method for c in selection.projecting(group_by_seed(named))] == [chosen]
    assert selection.projecting(group_by_seed([runs[0]])) == []


@pytest.mark.parametrize(
    ("draw", "columns"),
    [
        (figures.accuracy_by_graph, ["2 agents", "3 agents"]),
        (figures.accuracy_by_agents, ["fully-connected", "ring"]),
    ],
)
def test_accuracies_are_means_and_deviations_of_averaged_model_and_mean_agent(run, draw, columns):
    """Two seeds that end at losses of 0.4 and 0.8 with two agents, one at 1.2 with three."""
    losses = {2: (0.4, 0.8), 3: (1.2,)}
    runs = [
        run((2.0, loss), agents=agents, **{**CGA, "graph": graph}, seed=str(seed))
        for graph in ("ring", "fully-connected")
        for agents, seeds in losses.items()
        for seed, loss in enumerate(seeds)
    ]
    figure = draw(group_by_seed(runs))
    assert [axes.get_title() for axes in figure.axes] == [f"{column}, non-IID" for column in columns]
    marks = {}
    for number, axes in enumerate(figure.axes):
        for line, _, (bars,) in axes.containers:
            hollow = line.get_markerfacecolor() == "white"
            for (x, y), bar in zip(line.get_xydata(), bars.get_segments(), strict=True):
                where = (number, round(x)) if draw is figures.accuracy_by_graph else (round(x), number)
                marks[(*where, hollow)] = (y, (bar[1, 1] - bar[0, 1]) / 2)
    for graph in (0, 1):
        assert marks[0, graph, False] == pytest.approx((85.0, 5.0))
        assert marks[0, graph, True] == pytest.approx((75.5, 5.0))
        assert marks[1, graph, False] == pytest.approx((70.0, 0.0), abs=1e-9)
        assert marks[1, graph, True] == pytest.approx((61.0, 0.0), abs=1e-9)
    assert len(marks) == 8


def test_accuracies_are_of_runs_that_have_ended(run):
    choose = selection.several("graph")
    done, elsewhere, begun = (
        run(**{**CGA, "graph": graph}, ended=ended)
        for graph, ended in (("ring", "finished"), ("star", "diverged"), ("star", "begun"))
    )
    assert choose(group_by_seed([done, begun])) == []
    assert [cell.runs for cell in choose(group_by_seed([done, elsewhere, begun]))] == [(done,), (elsewhere,)]


def test_agents_and_the_averaged_model_stand_in_one_panel(run):
    cells = group_by_seed([run((2.0, 1.0), agents=3, **CGA, seed="0"), run((2.0, 0.2), agents=3, **CGA, seed="1")])
    (axes,) = figures.agents_and_average(cells).axes
    drawn = [line.get_ydata() for line in axes.get_lines()]
    assert axes.get_lines()[0].get_label() == "each agent"
    for j in range(3):
        assert drawn[j] == pytest.approx([40 + j, 65 + j])
    assert drawn[3] == pytest.approx([41, 66])
    assert drawn[4] == pytest.approx([50, 75])


def test_a_seed_that_diverged_keeps_its_last_value_and_is_marked(run):
    runs = [run((2.0, 1.0, 0.5, 0.2), **CGA), run((2.0, 6.0), ended="diverged", **CGA)]
    drawn = series.curve_of_seeds(runs, lambda _, r: r.step, lambda r: r.loss)
    assert drawn.x.tolist() == [0, 10, 20, 30]
    assert drawn.mean == pytest.approx([2.0, 3.5, 3.25, 3.1])
    assert drawn.high.tolist() == [2.0, 6.0, 6.0, 6.0]
    assert (drawn.diverged_x.tolist(), drawn.diverged.tolist()) == ([10], [6.0])
    axes = figures.loss_by_method(group_by_seed(runs)).axes[0]
    assert lines(axes, DIVERGED_NOTE) == ([2.0], [6.0])
    assert series.curve_of_seeds(runs[1:], lambda _, r: r.step, lambda r: r.loss).diverged_x.tolist() == [10]


def test_a_mean_goes_only_as_far_as_all_seeds_have_come(run):
    runs = [run((2.0, 1.0, 0.5), **CGA), run((2.0, 0.5), ended="begun", **CGA)]
    drawn = series.curve_of_seeds(runs, lambda _, r: r.step, lambda r: r.loss)
    assert (drawn.x.tolist(), drawn.mean.tolist()) == ([0, 10], [2.0, 0.75])


def test_what_is_not_finite_leaves_a_gap_but_no_other_trace(run):
    runs = [run((2.0, float("nan")), **CGA), run((2.0, 1.0), **CGA)]
    assert series.curve_of_seeds(runs, lambda _, r: r.step, lambda r: r.loss).mean.tolist() == [2.0, 1.0]
    alone = series.curve_of_seeds(runs[:1], lambda _, r: r.step, lambda r: r.loss).mean
    assert np.isnan(alone).tolist() == [False, True]
    ends = series.spread([runs, runs[:1]], lambda r: r.accuracy)
    assert (ends.mean[0], ends.deviation[0]) == (0.75, 0.0)
    assert np.isnan([ends.mean[1], ends.deviation[1]]).all()


def test_a_mean_over_a_last_interval_that_is_short_is_left_out(run):
    cut = run((2.0, 1.0, 0.5, 0.1), **CGA)
    short = type(cut)(**{**vars(cut), "records": (*cut.records[:3], type(cut.last)(**{**vars(cut.last), "step": 21}))})
    assert series.curve_of_seeds([short], lambda _, r: r.step, lambda r: r.loss, between=True).x.tolist() == [0, 10, 20]
    assert series.curve_of_seeds([short], lambda _, r: r.step, lambda r: r.loss).x.tolist() == [0, 10, 20, 21]
    assert series.curve_of_seeds([cut], lambda _, r: r.step, lambda r: r.loss, between=True).x.tolist() == [
        0,
        10,
        20,
        30,
    ]
    averaged, own = figures.loss_by_method(group_by_seed([short])).axes
    assert (len(lines(averaged, "CGA (paper)")[0]), len(lines(own, "CGA (paper)")[0])) == (4, 3)


def test_a_long_curve_is_thinned_but_keeps_its_ends(run):
    drawn = series.curve_of_seeds([run(tuple(np.linspace(2, 1, 500)), **CGA)], lambda _, r: r.step, lambda r: r.loss)
    assert len(drawn.x) == series.MAX_POINTS
    assert (drawn.x[0], drawn.x[-1], drawn.mean[-1]) == (0, 4990, 1.0)


def test_an_explosion_does_not_hide_the_others(run):
    runs = [run((2.0, 1.0), **CGA), run((2.0, 1e9), ended="diverged", method="SGP", graph="ring", split="non-IID")]
    top = figures.loss_by_method(group_by_seed(runs)).axes[0].get_ylim()[1]
    assert 2.0 < top <= 10.0


@pytest.mark.parametrize("losses", [(2.0, 1e300), (0.0, 0.0), (float("nan"), float("nan")), (2.0,)])
def test_losses_that_no_logarithmic_axis_can_show_are_drawn_without_a_warning(run, losses):
    figures.loss_by_method(group_by_seed([run(losses, ended="diverged", **CGA)])).draw_without_rendering()


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged(run):
    cells = group_by_seed(
        [run(**CGA, lr="0.1", seed="0"), run(**CGA, lr="0.2", seed="0"), run(**CGA, lr="0.2", seed="1")]
    )
    assert [(cell.key.name, len(cell.runs)) for cell in cells] == [
        ("CGA (paper, lr 0.1)", 1), ("CGA (paper, lr 0.2)", 2)
    ]  # fmt: skip


def test_a_run_without_labels_is_placed_by_its_experiment(run):
    experiment = {"algorithm": {"name": "swarm"}, "graph": "star", "partition": {"name": "class"}, "agents": 2}
    assert key_of(run(experiment=experiment)) == GroupKey("SwarmSGD", "", "star", 2, "non-IID")
    experiment["partition"] = "iid"
    assert key_of(run((), experiment=experiment)) == GroupKey("SwarmSGD", "", "star", 2, "IID")


def test_colours_tell_methods_apart_and_dashes_their_variants(run):
    names = ["DPSGD", "DPMSGD", "SGP", "SwarmSGD", "CGA", "CompCGA"]
    places = [GroupKey(name, variant, "ring", 5, "IID") for name in names for variant in ("paper", "other")]
    styles = style.method_styles(places)
    assert len({styles[place.name] for place in places}) == 12
    assert len({styles[place.name].colour for place in places}) == 6
    for one, other in zip(places[::2], places[1::2], strict=True):
        assert styles[one.name].colour == styles[other.name].colour
        assert styles[one.name].dash != styles[other.name].dash
