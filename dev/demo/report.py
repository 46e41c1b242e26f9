"""The end of the demo: both sides beside each other, and the proof that nothing of the aborted transaction travelled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.table import Table


if TYPE_CHECKING:
    from dev.demo.compare import Comparison, Side, TableComparison


@dataclass(frozen=True, slots=True)
class AbortedFiles:
    """Files of aborted write ids of one table, on both sides."""

    write_ids: tuple[int, ...]
    at_source: tuple[str, ...]
    on_target: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the source has some (else nothing was proven) and the target none."""
        return bool(self.at_source) and not self.on_target


def aborted_files(source: Side, target: Side, table: str) -> AbortedFiles:
    """Look for files of the write ids that the source calls aborted."""
    write_ids = source.metastore.valid_write_ids([f"{source.db}.{table}"])[0].aborted
    return AbortedFiles(write_ids, _files_of(source, table, write_ids), _files_of(target, table, write_ids))


def _files_of(side: Side, table: str, write_ids: tuple[int, ...]) -> tuple[str, ...]:
    root = Path(urlsplit(side.metastore.get_table(side.db, table).sd.location or "").path)
    patterns = [f"*delta_{write_id:07d}_{write_id:07d}*/*" for write_id in write_ids]
    found = {file.relative_to(root) for pattern in patterns for file in root.glob(pattern)}
    return tuple(sorted(str(file) for file in found if not file.name.startswith((".", "_"))))


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
