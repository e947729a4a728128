"""One self-contained HTML file that shows a run, several sites' runs, a sweep or a reproduction."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from crossgrad._report.collect import collect, describe_run, dumps
from crossgrad._report.plain import Plain, detail
from crossgrad._runs.results import PACKED, RunResult, read_results
from crossgrad._storage import atomic
from crossgrad._storage.damage import DamagedFileError

MAKER = '<meta name="generator" content="crossgrad report">'  # identifies a page written by crossgrad
MAX_PAGE_BYTES = 9_800_000
MAX_TITLE = 80  # letters
REPORT_EXTRA_MISSING = (
    "a page needs the extra 'report'; {} is not installed. Install it by `pip install 'crossgrad[report]'`."
)
SCRIPTS = ("base.js", "groups.js", "table.js", "curves.js", "graph.js", "run.js", "page.js")


def write_page(folders: Path | Sequence[Path], out: Path) -> Path:
    """Write the page of a folder, or of several sites' runs. An existing file is replaced only if it is such a page."""
    if out.is_dir():
        raise ValueError(f"--out must name the file to write, such as report.html; {out} is a folder.")
    if out.exists() and not _is_page(out):
        raise ValueError(
            f"--out must name a new file or a report; {out} is neither, and is not overwritten. Name another."
        )
    page = render(read_page_data(folders), live=False).encode()
    if len(page) > MAX_PAGE_BYTES:
        raise ValueError(
            f"a page must have at most 10 MB; {out} would have {len(page) / 1e6:.0f}. Make one for a part of it, such "
            "as one cell's folder."
        )
    atomic.write(out, [page])
    return out


def read_page_data(folders: Path | Sequence[Path]) -> Plain:
    """The present data of the page of a folder, or of several sites' runs."""
    if not isinstance(folders, Path) and len(folders) > 1:
        return _of_sites(folders)
    folder = folders if isinstance(folders, Path) else folders[0]
    waits = (folder / "grid.toml").is_file() and not any((folder / name).exists() for name in ("cells", PACKED))
    damaged: dict[str, str] = {}
    results = [] if waits else read_results(folder, damaged)  # a sweep whose first cell has not begun has a grid only
    readable = [result for result in results if _is_shown(result, damaged)]
    if results and not readable:
        raise ValueError(_none_readable(damaged))
    return collect(folder, readable, MAX_PAGE_BYTES - len(_frame()), damaged)


def _of_sites(folders: Sequence[Path]) -> Plain:
    """Several sites' runs beside one another, each labelled with its folder's name."""
    names = [folder.resolve().name for folder in folders]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"the folders of several sites must have different names; {twice[0]!r} is there twice. Rename one."
        )
    results, damaged = [], dict[str, str]()
    for folder, name in zip(folders, names, strict=True):
        found = read_results(folder)
        if not (folder / "experiment.toml").is_file() or len(found) != 1:
            raise ValueError(
                f"of several folders each must be that of one site's run; {folder} is another. Name a sweep by itself."
            )
        results.append(replace(found[0], labels={"site": name}))
    readable = [result for result in results if _is_shown(result, damaged)]
    if not readable:
        raise ValueError(_none_readable(damaged))
    data = collect(folders[0].resolve().parent, readable, MAX_PAGE_BYTES - len(_frame()), damaged)
    return data | {"title": ", ".join(names) if len(", ".join(names)) < MAX_TITLE else f"{len(names)} sites"}


def _none_readable(damaged: dict[str, str]) -> str:
    reasons = "; ".join(f"{name}: {why}" for name, why in damaged.items())
    return f"a page must have a run that can be read; found none. {reasons}"


def _is_shown(result: RunResult, damaged: dict[str, str]) -> bool:
    """Whether a page can show this run. If it has values of wrong types, it is added to `damaged`."""
    try:
        describe_run(result, every=1)
        detail(result, every=1)
        _ = result.quantities
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
        damaged[result.name] = str(error) if isinstance(error, DamagedFileError) else f"it is damaged: {error}"
        return False
    return True


def render(data: Plain, live: bool) -> str:
    """The page; with `live`, it polls its server for changes."""
    return _frame(data, live)


def _frame(data: Plain | None = None, live: bool = False) -> str:
    """The page with its style and scripts, and with the data if there is any."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ValueError(REPORT_EXTRA_MISSING.format(error.name)) from None
    template = Environment(autoescape=True).from_string(asset("_report", "page.html.jinja"))
    return template.render(
        maker=Markup(MAKER),
        title=data["title"] if data else "",
        live=live,
        style=Markup(asset("_report", "page.css")),
        plotly=Markup(get_plotlyjs()),
        scripts=Markup("\n".join(asset("_report", name) for name in SCRIPTS)),
        data=Markup(dumps(data)) if data else "",
    )


def asset(room: str, name: str) -> str:
    """A file of the folder `assets` of a room, as text."""
    return (files(f"crossgrad.{room}") / "assets" / name).read_text(encoding="utf-8")


def _is_page(path: Path) -> bool:
    with atomic.open_regular(path) as file:
        return MAKER.encode() in file.read(2000)
