"""The page in a real browser: no error, no request, and controls that work."""

import shutil
import threading
from contextlib import contextmanager

import pytest

from crossgrad._report.page import write_page
from crossgrad._report.serve import make_server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
PATIENCE = 100_000  # milliseconds, on a machine that has much else to do
LINES = "[...document.getElementById('{}').data].filter(t => t.hoverinfo !== 'skip')"
PAPER = [
    {"method": "CGA", "graph": "ring", "agents": 5, "paper": "66.5", "averaged": 81.2, "difference": 14.7, "seeds": 3},
    {"method": "SGP", "graph": "ring", "agents": 5, "paper": "diverges", "averaged": 9.9, "status": "diverged"},
    {"method": "EDM", "graph": "star", "agents": 10, "paper": None, "averaged": 95.0, "spread": 0.5},
]


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield launched
        launched.close()


@contextmanager
def watched(chromium, width=1280):
    """A tab; whatever it asks for or complains about is an error at the end."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    tab.complaints, tab.requests = [], []
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on("request", lambda request: tab.requests.append(request.url))
    try:
        yield tab
        assert tab.complaints == []
    finally:
        context.close()


@contextmanager
def serving(folder):
    """A live page's server in a thread of its own."""
    with make_server(folder, 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def sweep_file(folders, tmp_path_factory):
    sweep = folders.sweep(tmp_path_factory.mktemp("browser") / "sweep")
    return write_page(sweep, sweep / "report.html")


@pytest.fixture(scope="module")
def sweep_tab(chromium, sweep_file):
    """One tab of a sweep's page for all tests that use its controls; each sets all controls it depends on."""
    with watched(chromium) as tab:
        tab.goto(sweep_file.as_uri())
        tab.wait_for_selector("#plot .main-svg")
        yield tab
        assert tab.requests == [sweep_file.as_uri()]  # nothing but the file itself


def lines(tab, plot="plot"):
    """The curves that Plotly holds: name, x, y."""
    found = tab.evaluate(f"{LINES.format(plot)}.map(t => [t.name, Array.from(t.x), Array.from(t.y)])")
    return {name: (x, y) for name, x, y in found}


def cells(tab, column):
    return tab.locator(f"#table tbody tr td:nth-child({column})").all_inner_texts()


def test_the_metric_and_the_axis_change_the_curves(sweep_tab):
    tab = sweep_tab
    tab.select_option("#metric", "accuracy")
    tab.select_option("#axis", "step")
    x, y = lines(tab)["CGA (paper), ring"]
    assert x == [0, 10, 20, 30, 40]
    assert y == pytest.approx([75 * n / (n + 1) for n in range(5)], abs=0.01)  # the mean of levels 0.7 and 0.8
    expected = {"epoch": 2, "round": 80, "bytes_sent": 16000, "gradients": 480, "seconds": 1, "step": 40}
    for axis, end in expected.items():
        tab.select_option("#axis", axis)
        assert lines(tab)["CGA (paper), ring"][0][-1] == end
        assert lines(tab, "small-0")["CGA (paper), ring"][0][-1] == end
        assert lines(tab, "agents-plot")["averaged model"][0][-1] == end
    for metric, end in {"worst_agent": 42.0, "mean_agent": 51.0, "loss": 0.4, "cosine": -0.2}.items():
        tab.select_option("#metric", metric)
        assert lines(tab)["CGA (paper), ring"][1][-1] == pytest.approx(end, abs=0.02)
        assert (lines(tab).get("EDM, ring", ([], []))[1] == []) == (metric == "cosine")
    tab.select_option("#metric", "loss")
    assert tab.evaluate("document.getElementById('plot').layout.yaxis.type") == "log"
    tab.uncheck("#log")
    assert tab.evaluate("document.getElementById('plot').layout.yaxis.type") == "linear"


def test_filters_and_the_legend_hide_curves(sweep_tab):
    tab = sweep_tab
    tab.select_option("#metric", "accuracy")
    everything = ["CGA (paper), ring", "CGA (paper), star", "EDM, ring", "EDM, star"]
    assert sorted(lines(tab)) == everything
    tab.get_by_role("checkbox", name="star").uncheck()
    assert sorted(lines(tab)) == ["CGA (paper), ring", "EDM, ring"]
    entry = tab.get_by_role("button", name="EDM, ring")
    entry.focus()
    tab.keyboard.press("Enter")  # by keyboard, and the focus stays although the legend is drawn anew
    assert sorted(lines(tab)) == ["CGA (paper), ring"]
    assert entry.get_attribute("aria-pressed") == "false"
    tab.keyboard.press("Enter")
    tab.get_by_role("checkbox", name="star").check()
    assert sorted(lines(tab)) == everything
    styles = tab.evaluate(f"{LINES.format('plot')}.map(t => t.line.color + t.line.dash)")
    assert len(set(styles)) == 4


def test_the_table_sorts_by_a_click_and_has_means_with_deviations(sweep_tab):
    tab = sweep_tab
    averaged = tab.get_by_role("button", name="averaged model", exact=True)
    averaged.click()
    assert cells(tab, 4) == ["64.0 ± 5.7", "64.0 ± 5.7", "60.0 ± 5.7", "60.0 ± 5.7"]  # 80 % of 75 and 85, of 70 and 80
    assert cells(tab, 1) == ["EDM", "EDM", "CGA (paper)", "CGA (paper)"]
    averaged.click()
    assert cells(tab, 1) == ["CGA (paper)", "CGA (paper)", "EDM", "EDM"]
    assert tab.locator("th[aria-sort=ascending]").inner_text().strip() == "averaged model"


def test_a_run_shows_its_agents_its_graph_and_its_classes_over_time(sweep_tab):
    tab = sweep_tab
    tab.select_option("#run", "cga-star-1")
    assert len(lines(tab, "agents-plot")) == 6  # four agents, their mean, the averaged model
    assert tab.locator("#graph svg g").count() == 4
    assert tab.locator("#graph svg line").count() == 4
    assert tab.locator("#graph svg title").first.text_content() == "agent 0: 20 samples, class 0: 20"
    assert tab.locator("#when-text").inner_text() == "step 40, epoch 2"
    tab.focus("#when")
    tab.keyboard.press("Home")
    assert tab.locator("#when-text").inner_text() == "step 0, epoch 0"
    heat = "document.getElementById('heat').data[0].z.map(row => Array.from(row))"
    assert tab.evaluate(heat) == [[0, 0, 0]] + 4 * [[0, 100, 0]]
    tab.keyboard.press("End")
    assert tab.evaluate(heat) == [[64, 64, 64]] + 4 * [[64, 100, 0]]
    assert tab.evaluate("document.getElementById('heat').layout.shapes.length") == 4  # a class each


def test_the_settings_are_there_and_can_be_saved(sweep_tab, sweep_file):
    tab = sweep_tab
    tab.select_option("#run", "edm-ring-0")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save experiment.toml").click()
    own = (sweep_file.parent / "cells" / "edm-ring-0" / "experiment.toml").read_text()
    assert download.value.path().read_text() == own == tab.locator("#toml").text_content()
    assert "crossgrad run experiment.toml" in tab.locator("#repeat").inner_text()


def test_every_control_has_a_name(sweep_tab):
    controls = sweep_tab.locator("select, input, button").all()
    assert len(controls) > 15
    nameless = "e => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label'))"
    assert [control.get_attribute("id") for control in controls if control.evaluate(nameless)] == []


def test_a_reproduction_fits_a_phone_and_paper_and_shows_names_as_they_are(chromium, folders, tmp_path):
    nasty = "<img src=x onerror=alert(1)><b>"
    sweep = tmp_path / "sweep"
    folders.run(sweep / "cells" / "one", {"method": nasty, "seed": "0"}, name=nasty)
    folders.run(sweep / "cells" / "two", {"method": "w" * 80, "seed": "0"}, ended="diverged", evaluations=3)
    folders.json(sweep / "reproduction.json", {"title": nasty, "rows": [*PAPER, {"method": nasty, "status": nasty}]})
    file = write_page(sweep, tmp_path / "page.html")
    with watched(chromium, width=360) as tab:
        tab.goto(file.as_uri())
        tab.wait_for_selector("#plot .main-svg")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        assert tab.locator("h1").inner_text() == nasty
        assert tab.locator("img").count() == tab.locator("b").count() == 0
        assert cells(tab, 5)[:3] == ["66.5", "diverges", "\u2013"]
        tab.get_by_role("button", name="paper", exact=True).click()
        assert cells(tab, 3) == ["CGA", "SGP", "EDM", nasty]  # numbers, words, nothing
        assert "81.2" in cells(tab, 6)
        tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        tab.emulate_media(media="print")
        assert not tab.locator("#metric").is_visible()
        assert tab.locator("#toml").is_visible()
        assert tab.evaluate("Math.max(...[...document.querySelectorAll('.main-svg')].map(s => s.clientWidth))") <= 690
        assert tab.pdf(format="A4").startswith(b"%PDF")
        assert tab.requests == [file.as_uri()]


def test_a_live_page_follows_a_run_and_keeps_what_the_reader_chose(chromium, folders, tmp_path):
    sweep = tmp_path / "sweep"
    run = folders.run(sweep / "cells" / "one", {"method": "one", "seed": "0"}, ended="begun", evaluations=2)
    with serving(sweep) as server, watched(chromium) as tab:
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.wait_for_selector("#plot .main-svg")
        tab.evaluate("document.body.dataset.same = 'page'")
        tab.select_option("#metric", "worst_agent")
        tab.select_option("#axis", "bytes_sent")
        tab.focus("#axis")
        assert tab.locator("#status").inner_text() == "Status: 0 of 1 begun runs have ended."
        for number in (2, 3, 4):
            folders.add(run, number)
        folders.json(run / "summary.json", {"ended": "finished", "reason": ""})
        folders.run(sweep / "cells" / "two", {"method": "two", "seed": "0"}, level=0.5)
        tab.get_by_text("2 of 2 begun runs have ended").wait_for()
        assert lines(tab)["one"][0] == [0, 4000, 8000, 12000, 16000]
        assert lines(tab)["two"][1][-1] == pytest.approx(0.7 * 40)
        assert tab.locator("#metric").input_value() == "worst_agent"
        assert tab.evaluate("[document.activeElement.id, document.body.dataset.same]") == ["axis", "page"]
        assert len(cells(tab, 1)) == 2
        folders.run(sweep / "cells" / "three", {"method": "three", "seed": "0"})
        tab.get_by_text("3 of 3 begun runs have ended").wait_for()


def test_axes_named_constructor_and_proto_do_not_empty_the_page(chromium, folders, tmp_path):
    for number, labels in enumerate(({"constructor": "a", "__proto__": "b"}, {"constructor": "c"}, {"__proto__": "d"})):
        folders.run(tmp_path / "cells" / str(number), labels)
    with watched(chromium) as tab:
        tab.goto(write_page(tmp_path, tmp_path / "report.html").as_uri())
        tab.wait_for_selector("#plot .main-svg")
        assert set(lines(tab)) == {"a, b", "c", "d"}
