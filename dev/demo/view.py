"""What the demo shows while it runs: the writer's statements, the events on their way, and how far the replica is behind.

On a terminal a picture that changes; anywhere else a line per statement, since a log is read afterwards.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from dev.demo.compare import Comparison, TableComparison
    from dev.demo.replicator import Progress
    from dev.demo.workload import Done


SHOWN_STEPS: Final = 14
LAG_SAMPLES: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"
_MARKS: Final = {"waiting": "·", "running": "▶", "done": "✓", "wrong": "✗"}


class View:
    """Shows progress until its ``with`` block ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        )
        self._lags: deque[int] = deque(maxlen=LAG_SAMPLES)
        self._told = 0
        self._started_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, rows: list[Done], progress: Progress) -> None:
        """Show the newest state."""
        self._lags.append(progress.behind or 0)
        if self._live is not None:
            self._live.update(self._picture(rows, progress))
        else:
            self._tell(rows, progress)

    def _tell(self, rows: list[Done], progress: Progress) -> None:
        for row in rows[self._told :]:
            if row.state in {"waiting", "running"}:
                return
            self._told += 1
            self._console.print(
                f"{_MARKS[row.state]} {row.step.title}: {row.events} events, {row.seconds:.1f} s; "
                f"replica {progress.behind} events behind",
                highlight=False,
            )

    def _picture(self, rows: list[Done], progress: Progress) -> Group:
        statements = Panel(_statements(rows), title="writer on the source", title_align="left")
        flow = Panel(Group(_flow(progress), Text(), self._lag()), title="Tideline", title_align="left")
        done = sum(row.state == "done" for row in rows)
        elapsed = Text(f"{time.monotonic() - self._started_s:5.0f} s", style="dim")
        return Group(Columns([statements, flow]), ProgressBar(len(rows), done, width=60), elapsed)

    def _lag(self) -> Text:
        top = max(max(self._lags, default=0), 1)
        line = "".join(_BARS[(lag * (len(_BARS) - 1) + top - 1) // top] for lag in self._lags)
        return Text(f"{line}\nevents behind, at most {max(self._lags, default=0)}")


def _statements(rows: list[Done]) -> Table:
    """Show the statements around the one that runs."""
    table = Table.grid(padding=(0, 1))
    current = next((n for n, row in enumerate(rows) if row.state in {"waiting", "running"}), len(rows))
    first = max(0, min(current - SHOWN_STEPS // 2, len(rows) - SHOWN_STEPS))
    for row in rows[first : first + SHOWN_STEPS]:
        style = {"waiting": "dim", "wrong": "bold red", "running": "bold"}.get(row.state, "")
        events = f"{row.events} events" if row.state == "done" else ""
        table.add_row(_MARKS[row.state], Text(row.step.title, style=style), Text(events, style="dim"))
    return table


def _flow(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 2))
    for label, value in (
        ("source's event", progress.source_event),
        ("in the topic", progress.topic_event),
        ("on the replica", progress.applied_event),
        ("files copied", progress.copied_files),
    ):
        table.add_row(label, Text("-" if value is None else str(value), justify="right"))
    if progress.quarantined:
        table.add_row(Text("quarantined", style="red"), ", ".join(progress.quarantined))
    return table


def side_by_side(comparison: Comparison, source_db: str, target_db: str) -> Table:
    """Return the tables of both sides with their rows and write-id lists."""
    table = Table(title="the same tables, read by SQL on both clusters", title_justify="left", expand=False)
    table.add_column("table", no_wrap=True)
    table.add_column(f"source: {source_db}")
    table.add_column(f"target: {target_db}")
    table.add_column("equal")
    for one in comparison.tables:
        table.add_row(one.name, _cell(one, 0), _cell(one, 1), "[red]NO" if one.differences else "[green]yes")
        table.add_section()
    return table


def _cell(one: TableComparison, side: int) -> str:
    lines = [" | ".join(row) for row in one.rows[side]] or ["(no rows)"]
    if one.write_ids[side]:
        lines.append(f"[dim]write ids {one.write_ids[side]}".replace("[", "\\[").replace("\\[dim]", "[dim]"))
    return "\n".join(lines)
