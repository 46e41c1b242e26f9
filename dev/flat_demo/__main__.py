"""A flat event table on one machine, with only Python and Java: the keys that users query become columns.

One directory has raw JSON events, others have queries. The demo mines the queries, splits the events with
Spark, and shows the table and why each key is or is not a column. Then a user queries new keys, and the table
gets more columns without any change of a schema by hand. Finally, the demo compares every value with
``get_json_object`` on the raw events. The exit code is 0 only if all are equal.
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
USERS: Final = ("ann", "bob", "cid", "dora")
EVENTS_PER_HOUR: Final = 4_000


def main() -> int:
    """Run the demo and return the exit code."""
    console = Console(highlight=False)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    for user, text in zip(USERS, (inputs.ANN, inputs.BOB, inputs.CID, ""), strict=True):
        inputs.write_query(DIRECTORY / "queries", user, text)
    inputs.write_events(DIRECTORY / "raw", EVENTS_PER_HOUR, 0, inputs.HOURS)
    inputs.write_config(CONFIG, USERS)
    steps = [
        ("Which keys do users' queries read?", ["keys", "mine"]),
        ("The first events become a typed table.", ["split", "run", "web", "--once"]),
        ("Why is a key a column, and why not?", ["keys", "list", "web", "--why"]),
    ]
    if not all(_run_command(console, title, arguments) for title, arguments in steps):
        return 1
    console.rule("[bold]dora queries two keys that no one queried before; two more hours arrive")
    inputs.write_query(DIRECTORY / "queries", "dora", inputs.DORA)
    inputs.write_events(DIRECTORY / "raw", EVENTS_PER_HOUR, inputs.HOURS, 2)
    steps = [
        ("Her query is mined.", ["keys", "mine"]),
        ("What would change, and why?", ["split", "plan", "web"]),
        ("The stream continues.", ["split", "run", "web", "--once"]),
        ("The earlier hours are split again.", ["split", "backfill", "web"]),
    ]
    if not all(_run_command(console, title, arguments) for title, arguments in steps):
        return 1
    console.rule("[bold]The flat table against get_json_object on the raw events")
    return subprocess.run(
        [sys.executable, "-m", "dev.flat_demo.compare", str(DIRECTORY)], check=False
    ).returncode


def _run_command(console: Console, title: str, arguments: list[str]) -> bool:
    console.rule(f"[bold]{title}")
    console.print(f"[dim]$ tideline {' '.join(arguments)} -c {CONFIG}")
    command = [sys.executable, "-m", "daemon", *arguments, "--config", str(CONFIG)]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
