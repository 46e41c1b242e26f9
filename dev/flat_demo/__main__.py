"""A flat event table on one machine, with nothing but Python and Java: what people ask becomes columns.

Raw JSON events lie in a directory, queries in others. The demo mines the queries, splits the events by Spark, shows the table and
why each key is a column or not; then somebody asks something new, and the table gets another column without anybody touching a
schema. At the end every value is compared with ``get_json_object`` on the raw events. Exit code 0 only if all are equal.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from dev.flat_demo import inputs


DIRECTORY: Final = Path("build") / "flat-demo"
CONFIG: Final = DIRECTORY / "tideline.yaml"
PEOPLE: Final = ("ann", "bob", "cid", "dora")
EVENTS_AN_HOUR: Final = 4_000


def main() -> int:
    """Run the demo and return the exit code."""
    console = Console(highlight=False)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    for person, text in zip(PEOPLE, (inputs.ANN, inputs.BOB, inputs.CID, ""), strict=True):
        inputs.write_query(DIRECTORY / "queries", person, text)
    inputs.write_events(DIRECTORY / "raw", EVENTS_AN_HOUR, 0, inputs.HOURS)
    inputs.write_config(CONFIG, PEOPLE)
    steps = [
        ("Which keys do people's queries ask for?", ["keys", "mine"]),
        ("The events so far become a typed table.", ["split", "run", "web", "--once"]),
        ("Why is a key a column, or not?", ["keys", "list", "web", "--why"]),
    ]
    if not all(_step(console, title, arguments) for title, arguments in steps):
        return 1
    console.rule("[bold]dora asks for two keys that nobody asked for before; two more hours arrive")
    inputs.write_query(DIRECTORY / "queries", "dora", inputs.DORA)
    inputs.write_events(DIRECTORY / "raw", EVENTS_AN_HOUR, inputs.HOURS, 2)
    steps = [
        ("Her query is mined.", ["keys", "mine"]),
        ("What would change, and why?", ["split", "plan", "web"]),
        ("The stream goes on.", ["split", "run", "web", "--once"]),
        ("The hours that were there before are split once more.", ["split", "backfill", "web"]),
    ]
    if not all(_step(console, title, arguments) for title, arguments in steps):
        return 1
    console.rule("[bold]The flat table against get_json_object on the raw events")
    return subprocess.run(
        [sys.executable, "-m", "dev.flat_demo.compare", str(DIRECTORY)], check=False
    ).returncode


def _step(console: Console, title: str, arguments: list[str]) -> bool:
    console.rule(f"[bold]{title}")
    console.print(f"[dim]$ tideline {' '.join(arguments)} -c {CONFIG}")
    command = [sys.executable, "-m", "daemon", *arguments, "--config", str(CONFIG)]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
