"""The benchmark as one HTML file: a table with filters that needs nothing else."""

import json
from collections.abc import Sequence
from pathlib import Path

from crossgrad._report.page import MAKER, REPORT_EXTRA_MISSING, asset
from crossgrad._storage import atomic
from crossgrad._tuning.standings import Standing


def write_benchmark_page(rows: Sequence[Standing], path: Path) -> Path:
    """Write the page of these rows."""
    atomic.write(path, [benchmark_page(rows).encode()])
    return path


def benchmark_page(rows: Sequence[Standing]) -> str:
    """The page of these rows."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise ValueError(REPORT_EXTRA_MISSING.format(error.name)) from None
    plain = json.dumps([row.as_json() for row in rows], allow_nan=False).replace("<", "\\u003c")
    template = Environment(autoescape=True).from_string(asset("_benchmark", "page.html.jinja"))
    return template.render(
        maker=Markup(MAKER),
        style=Markup(asset("_benchmark", "page.css")),
        script=Markup(asset("_benchmark", "page.js")),
        data=Markup(plain),
    )
