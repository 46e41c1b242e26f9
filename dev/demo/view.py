"""The display of the demo.

While the demo runs, it shows the statements of the writer, the events on their way, and the lag of the
replica; at the end, the tables of both clusters. On a terminal, it updates the display in place; elsewhere,
each statement is one line, because the output is read as a log.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final, Self

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dev.demo.compare import Comparison, TableComparison
from dev.demo.replicator import Progress
from dev.demo.workload import StepResult
from state.value_text import count_text


SHOWN_STEPS: Final = 14
LAG_SAMPLES: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"
_MARKS: Final = {"waiting": "·", "running": "▶", "done": "✓", "failed": "✗"}


class View:
    """Shows the progress during its ``with`` block."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        )
        self._lags: deque[int] = deque(maxlen=LAG_SAMPLES)
        self._printed = 0
        self._started_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, rows: list[StepResult], progress: Progress) -> None:
        """Show the current state."""
        self._lags.append(progress.behind or 0)
        if self._live is not None:
            self._live.update(self._render(rows, progress))
        else:
            self._print_lines(rows)

    def _print_lines(self, rows: list[StepResult]) -> None:
        for row in rows[self._printed :]:
            if row.state in {"waiting", "running"}:
                return
            self._printed += 1
            self._console.print(
                f"{_MARKS[row.state]} {row.step.title}: {count_text(row.events, 'event')}, "
                f"{row.seconds:.1f} s; replica {count_text(self._lags[-1], 'event')} behind",
                highlight=False,
            )

    def _render(self, rows: list[StepResult], progress: Progress) -> Group:
        statements = Panel(_render_statements(rows), title="writer on the source", title_align="left")
        flow = Panel(
            Group(_render_progress(progress), Text(), self._render_lag()),
            title="Tideline",
            title_align="left",
        )
        done = sum(row.state == "done" for row in rows)
        elapsed = Text(f"{time.monotonic() - self._started_s:5.0f} s", style="dim")
        return Group(Columns([statements, flow]), ProgressBar(len(rows), done, width=60), elapsed)

    def _render_lag(self) -> Text:
        top = max(max(self._lags, default=0), 1)
        line = "".join(_BARS[(lag * (len(_BARS) - 1) + top - 1) // top] for lag in self._lags)
        return Text(f"{line}\nevents behind, at most {max(self._lags, default=0)}")


def _render_statements(rows: list[StepResult]) -> Table:
    """Return the running statement with those before and after it."""
    table = Table.grid(padding=(0, 1))
    current = next((n for n, row in enumerate(rows) if row.state in {"waiting", "running"}), len(rows))
    first = max(0, min(current - SHOWN_STEPS // 2, len(rows) - SHOWN_STEPS))
    for row in rows[first : first + SHOWN_STEPS]:
        style = {"waiting": "dim", "failed": "bold red", "running": "bold"}.get(row.state, "")
        events = f"{row.events} events" if row.state == "done" else ""
        table.add_row(_MARKS[row.state], Text(row.step.title, style=style), Text(events, style="dim"))
    return table


def _render_progress(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 2))
    for label, value in (
        ("newest source event", progress.source_event),
        ("newest event in the topic", progress.topic_event),
        ("applied to the replica", progress.applied_event),
        ("files copied", progress.copied_files),
    ):
        table.add_row(label, Text("-" if value is None else str(value), justify="right"))
    if progress.quarantined:
        table.add_row(Text("quarantined", style="red"), ", ".join(progress.quarantined))
    return table


def build_comparison_table(comparison: Comparison, source_db: str, target_db: str) -> Table:
    """Return the tables of both clusters with their rows and write-id lists."""
    table = Table(title="the same tables, read by SQL on both clusters", title_justify="left", expand=False)
    table.add_column("table", no_wrap=True)
    table.add_column(f"source: {source_db}")
    table.add_column(f"target: {target_db}")
    table.add_column("equal")
    for one in comparison.tables:
        table.add_row(
            one.name,
            _render_cell(one, 0),
            _render_cell(one, 1),
            "[red]NO" if one.differences else "[green]yes",
        )
        table.add_section()
    return table


def _render_cell(one: TableComparison, side: int) -> str:
    lines = [" | ".join(row) for row in one.rows[side]] or ["(no rows)"]
    if one.write_ids[side]:
        lines.append(f"[dim]write ids {one.write_ids[side]}".replace("[", "\\[").replace("\\[dim]", "[dim]"))
    return "\n".join(lines)
