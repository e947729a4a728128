"""The page's content: what is in it, what is escaped, how large it is, and what it replaces."""

import builtins
import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossgrad._report import collect as collecting
from crossgrad._report import page as pages
from crossgrad._report.collect import collect
from crossgrad._report.drawing import positions
from crossgrad._report.page import write_page
from crossgrad._runs import results
from crossgrad._runs.results import read_results

TINY = """
agents = 4
partition = "class"
model = { name = "mlp", hidden = [4] }
graph = "ring"
algorithm = "cga"
training = { steps = 4, evaluate_every = 2, threads = 1 }
"""
NASTY = "<script>alert(1)</script>&\"'</title><b>"


def test_the_command_writes_the_page_of_a_real_run(crossgrad, tmp_path, data_of, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    assert crossgrad("run", "tiny.toml", "--quiet")[0] == 0
    (folder,) = Path("runs").iterdir()
    status, out, _ = crossgrad("report", folder)
    assert (status, out.strip()) == (0, str(folder / "report.html"))
    data = data_of((folder / "report.html").read_text())
    (run,) = data["runs"]
    assert data["kind"] == "run"
    assert run["curve"]["step"] == [0, 2, 4]
    assert run["curve"]["accuracy"][-1] == pytest.approx(100 * read_results(folder)[0].last.accuracy, abs=0.01)
    assert {"active", "shrinkage", "cosine"} < run["curve"].keys()
    assert data["graphs"][0]["places"] == [[0.5, 0.0], [1.0, 0.5], [0.5, 1.0], [0.0, 0.5]]
    held = run["detail"]["holds"]
    assert sum(map(sum, held)) == 1437  # all training digits, and every class with one agent only
    assert all(sum(counts[c] > 0 for counts in held) == 1 for c in range(10))


def test_every_process_writes_the_same_agents_file_with_the_agents_of_all():
    from crossgrad._network.shard import Shard
    from crossgrad._processes.group import SingleProcess
    from crossgrad._runs.agents_file import describe_agents
    from crossgrad.experiments import files

    def trainings(processes):
        gathered = {}

        class Process(SingleProcess):
            """One of several: holds its own agents, and gathers what the others said before it."""

            def __init__(self, rank):
                self.own = rank

            def shard(self, agents):
                return Shard.of(agents, self.own, processes)

            def gather(self, table, rows=None):
                gathered[self.own, table.shape[1:]] = table
                return torch.cat([gathered[key] for key in sorted(gathered) if key[1] == table.shape[1:]])

        return [files.parse(TINY).start(group=Process(rank)) for rank in range(processes)]

    (whole,) = [describe_agents(training) for training in trainings(1)]
    *_, last = [describe_agents(training) for training in trainings(3)]  # it has gathered from all
    assert last == whole
    assert whole["agents"] == len(whole["classes"]) == 4
    assert {tuple(edge[:2]) for edge in whole["edges"]} == {(j, (j + k) % 4) for j in range(4) for k in (-1, 0, 1)}


def test_an_edge_in_the_agents_file_is_the_receiver_then_the_sender():
    from crossgrad._runs.agents_file import describe_agents
    from crossgrad.experiments import files

    directed = TINY.replace("agents = 4", "agents = 5").replace('"ring"', '"exponential"').replace('"cga"', '"sgp"')
    edges = {tuple(edge[:2]) for edge in describe_agents(files.parse(directed).start())["edges"]}
    assert edges == {(j, (j - hops) % 5) for j in range(5) for hops in (0, 1, 2, 4)}


def test_a_sweep_has_a_curve_for_each_run_in_percent(folders, tmp_path):
    data = collect(folders.sweep(tmp_path / "sweep"), read_results(tmp_path / "sweep"), 10**7)
    assert (data["kind"], data["axes"], len(data["runs"])) == ("sweep", ["method", "graph", "agents"], 8)
    best = next(run for run in data["runs"] if run["name"] == "edm-star-1")
    assert best["curve"]["accuracy"] == [0.0, 42.5, 56.67, 63.75, 68.0]  # 85 n / (n + 1)
    assert best["curve"]["worst_agent"][-1] == pytest.approx(0.7 * 68)
    assert best["curve"]["consensus"][0] is None
    assert not {"active", "shrinkage", "cosine"} & best["curve"].keys()
    assert data["graphs"] == [data["graphs"][0]]  # shared by all


def test_a_packed_sweep_gives_the_same_page(folders, tmp_path):
    plain = tmp_path / "digits"
    folders.sweep(plain)
    packed = tmp_path / "packed" / "digits"
    packed.mkdir(parents=True)
    results.pack_results(read_results(plain), packed / results.PACKED)
    pages = [write_page(folder, tmp_path / f"{n}.html") for n, folder in enumerate((plain, packed))]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_a_reproduction_shows_its_rows_and_tolerates_missing_ones(folders, tmp_path):
    sweep = folders.sweep(tmp_path / "sweep")
    rows = [{"method": "CGA", "paper": "66.5", "averaged": 81.2, "seeds": 3}, {"paper": "diverges", "unknown": [1]}]
    folders.json(sweep / "reproduction.json", {"title": "Table 2", "rows": rows})
    data = collect(sweep, read_results(sweep), 10**7)
    assert (data["kind"], data["title"]) == ("reproduction", "Table 2")
    assert [row["paper"] for row in data["reproduction"]["rows"]] == ["66.5", "diverges"]
    assert data["reproduction"]["rows"][1]["averaged"] is None
    assert "unknown" not in data["reproduction"]["rows"][1]
    folders.json(sweep / "reproduction.json", {"rows": "none"})
    with pytest.raises(ValueError, match="rows must be a list"):
        collect(sweep, read_results(sweep), 10**7)


def test_a_sweep_shows_its_grid_and_the_cells_that_could_not_be_run(folders, tmp_path):
    sweep = folders.sweep(tmp_path / "sweep")
    (sweep / "grid.toml").write_text("[axes]\nseed = [0, 1]\n")
    (sweep / "cells" / "odd").mkdir()
    (sweep / "cells" / "odd" / "failed.txt").write_text("a torus needs more agents.\n")
    data = collect(sweep, read_results(sweep), 10**7)
    assert data["grid"] == "[axes]\nseed = [0, 1]\n"
    assert data["failed"] == [["odd", "a torus needs more agents.\n"]]


def test_a_sweep_that_has_just_begun_has_a_page_without_runs(tmp_path, data_of):
    (tmp_path / "grid.toml").write_text("[axes]\nseed = [0, 1]\n")
    assert data_of(write_page(tmp_path, tmp_path / "page.html").read_text())["runs"] == []


def test_nothing_that_users_name_becomes_html(folders, tmp_path, data_of):
    sweep = tmp_path / "sweep"
    run = folders.run(sweep / "cells" / "one", {"method": NASTY, NASTY: NASTY}, name=NASTY, method=NASTY)
    folders.json(run / "versions.json", {NASTY: NASTY})
    folders.json(sweep / "reproduction.json", {"title": NASTY, "rows": [{"method": NASTY, "command": NASTY}]})
    page = write_page(sweep, tmp_path / "page.html").read_text()
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 3
    assert html.unescape(re.search("<title>([^<]*)</title>", page)[1]) == f"{NASTY} - crossgrad"
    data = data_of(page)
    assert data["runs"][0]["labels"] == {"method": NASTY, NASTY: NASTY}
    assert data["reproduction"]["rows"][0]["command"] == NASTY


def test_the_page_forbids_itself_every_request(folders, tmp_path):
    page = write_page(folders.run(tmp_path / "run"), tmp_path / "page.html").read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert not re.findall(r'(?:src|href)="(?!#|data:,)', page[: page.index('id="data"')])


def test_what_is_not_finite_is_no_number_in_the_page(folders, tmp_path):
    folder = folders.run(tmp_path / "run", evaluations=0, ended="diverged")
    nan = replace(folders.record(1, 0.5), loss=math.nan, consensus=math.inf, class_accuracy=(math.nan, 0.5, 1.0))
    (folder / "records.jsonl").write_text(json.dumps(nan.as_json()) + "\n")
    (run,) = collect(folder, read_results(folder), 10**7)["runs"]
    assert "loss" not in run["curve"]
    assert run["detail"]["classes"] == ["--3264"]
    assert run["reason"] == "collapsed at step 40"


def test_accuracies_beyond_all_bounds_in_one_cell_kept_the_page_from_being_written(folders, tmp_path):
    folder = folders.run(tmp_path / "run", evaluations=0)
    odd = replace(folders.record(1, 0.5), accuracy=1e308, agent_accuracy=(1e308, -1e308, 0.5, 0.5))
    odd = replace(odd, class_accuracy=(1e308, -1.0, 0.5), agent_class_accuracy=((2.0, 0.5, 1.0),))
    (folder / "records.jsonl").write_text(json.dumps(odd.as_json()) + "\n")
    (run,) = collect(folder, read_results(folder), 10**7)["runs"]
    assert "accuracy" not in run["curve"]
    assert run["detail"]["each"] == [[None, None, 50.0, 50.0]]
    assert (run["detail"]["classes"], run["detail"]["heat"]) == (["----32"], [["--3264"]])
    write_page(tmp_path / "run", tmp_path / "page.html")


def test_a_sweep_of_400_cells_fits_and_says_what_was_left_out(folders, tmp_path, data_of, monkeypatch):
    (one,) = read_results(folders.run(tmp_path / "run", evaluations=21))
    agents, classes = 40, 10
    wide = tuple((0.12,) * classes for _ in range(agents))
    records = tuple(replace(r, agent_accuracy=(0.123,) * agents, agent_class_accuracy=wide) for r in one.records)
    cells = [
        replace(one, name=f"cell-{n}", labels={"method": f"m{n % 40}", "seed": str(n // 40)}, records=records)
        for n in range(400)
    ]
    monkeypatch.setattr(pages, "read_results", lambda _, damaged: cells)
    page = write_page(tmp_path, tmp_path / "page.html")
    assert page.stat().st_size < 10_000_000
    data = data_of(page.read_text())
    detailed = [run["detail"] is not None for run in data["runs"]]
    assert len(detailed) == 400
    assert data["left_out"] == detailed.count(False) > 0
    assert all(detailed[:40])  # the first seed of everything
    assert all(len(run["curve"]["step"]) == 21 for run in data["runs"])


def test_a_long_run_is_thinned_and_keeps_its_end(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "CURVE_BYTES", 10 * collecting.POINT_BYTES)
    folder = folders.run(tmp_path / "run", evaluations=48)
    data = collect(folder, read_results(folder), 10**7)
    assert data["every"] == 5
    assert data["runs"][0]["curve"]["step"] == [*range(0, 451, 50), 470]
    assert len(data["runs"][0]["detail"]["heat"]) == 11


def test_a_page_that_cannot_fit_is_refused(folders, tmp_path, monkeypatch):
    folder = folders.run(tmp_path / "run")
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 10"):
        write_page(folder, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_only_reports_are_replaced(folders, tmp_path, crossgrad):
    folder = folders.run(tmp_path / "run")
    mine = tmp_path / "mine.html"
    mine.write_text("<html>my own</html>")
    status, _, said = crossgrad("report", folder, "--out", mine)
    assert status == 2
    assert "is neither, and is not overwritten" in said
    assert mine.read_text() == "<html>my own</html>"
    first = write_page(folder, tmp_path / "page.html").read_bytes()
    folders.add(folder, 5)
    assert write_page(folder, tmp_path / "page.html").read_bytes() != first
    assert "is a folder" in crossgrad("report", folder, "--out", tmp_path)[2]
    assert "No such file" in crossgrad("report", folder, "--out", tmp_path / "none" / "page.html")[2]
    assert "must be the folder of a run or a sweep" in crossgrad("report", tmp_path)[2]


def test_without_plotly_it_is_said_how_to_get_it(folders, tmp_path, monkeypatch, crossgrad):
    folder = folders.run(tmp_path / "run")
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("plotly"):
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    status, _, said = crossgrad("report", folder)
    assert status == 2
    assert said.strip().endswith("plotly is not installed. Install it by `pip install 'crossgrad[report]'`.")


@pytest.mark.parametrize("damage", [{"edges": [[0, 9, 1.0]]}, {"edges": 3}, {"agents": "4"}, {"classes": [["many"]]}])
def test_a_damaged_agents_file_is_named(folders, tmp_path, damage):
    folder = folders.run(tmp_path / "run")
    agents = json.loads((folder / "agents.json").read_text())
    folders.json(folder / "agents.json", agents | damage)
    with pytest.raises(ValueError, match=r"agents\.json.* is damaged"):
        collect(folder, read_results(folder), 10**7)


def test_a_run_of_an_older_version_has_no_graph(folders, tmp_path):
    folder = folders.run(tmp_path / "run")
    (folder / "agents.json").unlink()
    data = collect(folder, read_results(folder), 10**7)
    assert data["graphs"] == []
    assert data["runs"][0]["detail"]["graph"] is None


@pytest.mark.parametrize("name", ["ring", "fully-connected", "bipartite", "star", "chain", "torus", "erdos-renyi"])
def test_no_two_agents_are_drawn_in_one_place(name):
    from crossgrad.experiments.config import choose
    from crossgrad.graphs import GRAPHS

    weights = choose(GRAPHS, name, "graph", {}).build(12, 0).weights.tocoo()
    edges = [(int(j), int(l), float(w)) for j, l, w in zip(weights.row, weights.col, weights.data, strict=True)]
    places = positions(12, name, edges)
    apart = min(math.dist(a, b) for n, a in enumerate(places) for b in places[:n])
    assert apart > 0.04
    assert all(0 <= coordinate <= 1 for place in places for coordinate in place)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": [1]},
        {"labels": {"graph": 3}},
        {"experiment": "x"},
        {"experiment": {"training": {"steps": "x"}}},
        {"experiment": {"agents": None}},
        {"summary": 7},
        {"summary": {"ended": []}},
        {"versions": None},
        {"agents": [1]},
        {"agents": {"edges": 3, "agents": 2}},
        {"name": 5},
    ],
    ids=str,
)
def test_a_packed_cell_with_wrong_types_is_a_sentence(change, folders, tmp_path, crossgrad):
    import gzip

    sweep = folders.sweep(tmp_path / "sweep")
    assert crossgrad("pack", sweep, tmp_path / "packed").status == 0
    path = tmp_path / "packed" / "cells.jsonl.gz"
    first, *rest = gzip.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(gzip.compress("\n".join([json.dumps(json.loads(first) | change), *rest, ""]).encode()))
    status, _, err = crossgrad("report", tmp_path / "packed")
    assert "Traceback" not in err
    assert (status, err.count("\n")) in ((2, 1), (0, 0))
    if status == 0:
        assert "damaged" in (tmp_path / "packed" / "report.html").read_text()


def test_the_page_shows_the_step_size_with_its_number(folders, tmp_path):
    from crossgrad._report.plain import about

    experiment = {"schedule": {"name": "exponential", "lr": 0.01, "decay": 0.9}}
    assert about(experiment)["schedule"] == "exponential, lr 0.01"


def test_a_page_of_several_sites_runs_has_each_under_its_folders_name(folders, tmp_path, data_of):
    runs = [folders.run(tmp_path / name) for name in ("wards-a", "wards-b")]
    data = data_of(write_page(runs, tmp_path / "page.html").read_text())
    assert [run["labels"] for run in data["runs"]] == [{"site": "wards-a"}, {"site": "wards-b"}]
    assert (data["title"], data["axes"]) == ("wards-a, wards-b", ["site"])
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ValueError, match="'wards-a' is there twice"):
        write_page([runs[0], folders.run(tmp_path / "elsewhere" / "wards-a")], tmp_path / "page.html")
    with pytest.raises(ValueError, match="must be the folder of a run"):
        write_page([runs[0], tmp_path / "elsewhere"], tmp_path / "page.html")
