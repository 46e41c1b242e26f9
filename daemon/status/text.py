"""The status as aligned text, for ``tideline status``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.status.model import (
        CopyStatus,
        DaemonStatus,
        FlatStatus,
        MinedSource,
        ProjectionView,
        SourceStatus,
    )


def status_text(status: DaemonStatus) -> str:
    """Return lines that a person reads at a glance: what is behind, what does not run, and why."""
    blocks = [
        _head(status),
        _table(("SOURCE", "EVENT", "IN TOPIC", "BEHIND", "FOR", "RELAY"), map(_source_row, status.sources)),
        _table(
            ("PROJECTION", "SOURCE", "STATE", "POSITION", "BEHIND", "LAG", "QUARANTINED"),
            map(_projection_row, status.projections),
        ),
        _table(
            ("COPIES", "FILES", "BYTES", "WAITING", "FALLBACKS", "MISMATCHES"), map(_copy_row, status.copies)
        ),
        _table(
            (
                "FLAT TABLE",
                "NAME",
                "STATE",
                "BATCH",
                "ROWS",
                "BEHIND",
                "LAG",
                "COLUMNS",
                "MISFITS",
                "UNSEALED",
            ),
            map(_flat_row, status.flats),
        ),
        _table(
            ("QUERIES OF", "READ", "WITH KEYS", "QUESTIONS", "UNRESOLVED", "DEAD", "LAST READ"),
            (_mined_row(source, status.time_s) for source in _mined(status)),
        ),
        _loading(status),
        _problems(status),
    ]
    return "\n\n".join(block for block in blocks if block)


def _head(status: DaemonStatus) -> str:
    if status.state == "stopped":
        taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(status.time_s))
        return f"Tideline {status.version}: not running; last known at {taken}"
    up = duration_text(status.time_s - status.started_s)
    return f"Tideline {status.version}: {status.state}, pid {status.pid} on {status.host}, up {up}"


def _source_row(source: SourceStatus) -> tuple[str, ...]:
    return (
        source.name,
        number_text(source.current_event_id),
        number_text(source.relayed_event_id),
        number_text(source.lag_events),
        duration_text(source.lag_s),
        source.relay_state or "elsewhere",
    )


def _projection_row(view: ProjectionView) -> tuple[str, ...]:
    return (
        view.name,
        view.source,
        view.state,
        view.position or "-",
        number_text(view.lag_events),
        duration_text(view.lag_s),
        str(len(view.quarantined)) if view.quarantined else "-",
    )


def _copy_row(copies: CopyStatus) -> tuple[str, ...]:
    return (
        copies.policy,
        number_text(copies.files),
        bytes_text(copies.size_bytes),
        number_text(copies.waiting),
        number_text(copies.fallbacks),
        number_text(copies.mismatches),
    )


def _flat_row(flat: FlatStatus) -> tuple[str, ...]:
    return (
        flat.table,
        flat.name,
        flat.state,
        number_text(flat.batch),
        number_text(flat.rows),
        number_text(flat.lag_records),
        duration_text(flat.lag_s),
        number_text(flat.columns),
        number_text(flat.misfits),
        number_text(flat.seal_backlog),
    )


def _mined(status: DaemonStatus) -> Sequence[MinedSource]:
    return status.mining.sources if status.mining is not None else ()


def _mined_row(source: MinedSource, now_s: float) -> tuple[str, ...]:
    return (
        source.name,
        number_text(source.queries),
        number_text(source.queries_with_keys),
        number_text(source.asks),
        number_text(source.unresolved),
        number_text(source.dead),
        "-" if source.read_s is None else f"{duration_text(max(0.0, now_s - source.read_s))} ago",
    )


def _loading(status: DaemonStatus) -> str:
    lines = [f"{view.name}: {table}" for view in status.projections for table in view.loading]
    return "\n".join(["LOADING", *lines]) if lines else ""


def _problems(status: DaemonStatus) -> str:
    lines = [f"{name}: no heartbeat" for name in status.stuck]
    lines += [f"source {source.name}: {source.problem}" for source in status.sources if source.problem]
    for view in status.projections:
        if view.problem:
            lines.append(f"{view.name}: {view.problem}")
        lines += [f"{view.name}: not following {table}" for table in view.quarantined]
    lines += [f"flat:{flat.name}: {flat.problem}" for flat in status.flats if flat.problem]
    if status.mining is not None and status.mining.problem:
        lines.append(f"mining: {status.mining.problem}")
    lines += [f"mining of {source.name}: {source.problem}" for source in _mined(status) if source.problem]
    return "\n".join(["PROBLEMS", *lines]) if lines else ""


def _table(header: tuple[str, ...], rows: Iterable[Sequence[str]]) -> str:
    """Lay out ``rows`` below ``header``: the first column's words to the left, as all words; figures to the right."""
    listed: list[Sequence[str]] = [header, *rows]
    if len(listed) == 1:
        return ""
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    figures = [
        column > 0 and all(_is_figure(row[column]) for row in listed[1:]) for column in range(len(header))
    ]
    return "\n".join(_line(row, widths, figures) for row in listed)


def _line(row: Sequence[str], widths: list[int], figures: list[bool]) -> str:
    cells = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(row, widths, figures, strict=True)
    )
    return "  ".join(cells).rstrip()


def _is_figure(text: str) -> bool:
    return text == "-" or text[:1].isdigit()


def number_text(value: int | None) -> str:
    """``1,234,567``, or ``-`` where nothing is known."""
    return "-" if value is None else f"{value:,}"


def duration_text(seconds: float | None) -> str:
    """``0 s``, ``42 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``; ``-`` where nothing is known."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def bytes_text(size_bytes: int) -> str:
    """``17 B``, ``1.5 MiB``: binary units, one decimal."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
