"""Put docs/reliability/simulated_time.json into docs/time.md.

python results/simulated_time.py
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
KEYS = (
    "algorithm",
    "graph",
    "Mbit/s",
    "latency, ms",
    "rounds",
    "gradient, ms",
    "step, ms",
    "real, s",
    "simulated, s",
    "ratio",
)


def table() -> str:
    """A line for each case, and how many are within the tolerance."""
    found = json.loads((DOCS / "reliability" / "simulated_time.json").read_text(encoding="utf-8"))
    lines = [KEYS, ["---", "---", *["---:"] * (len(KEYS) - 2)]]
    lines += [[str(case.get(key, "")) for key in KEYS] for case in found["cases"]]
    within = f"{found['within']} of {len(found['cases'])} are within {100 * found['tolerance']:.0f} %"
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{within}, with {found['agents']} agents.\n"


def filled(text: str) -> str:
    """The page with its table made again."""
    made = f"<!-- simulated -->\n{table()}<!-- end -->"
    return re.sub(r"<!-- simulated -->\n.*?<!-- end -->", lambda _: made, text, flags=re.DOTALL)


if __name__ == "__main__":
    page = DOCS / "time.md"
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
