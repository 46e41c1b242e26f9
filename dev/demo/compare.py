"""Whether two clusters hold the same database: rows as SQL reads them, and what the metastores say beside the rows.

Compared are the tables' names, their rows, parameters, columns, partitions (names and parameters), column statistics and valid
write-id lists. Left out is what only one side can know: when something was last altered there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from state.transactions.valid_write_ids import ValidWriteIds, compare_write_ids


if TYPE_CHECKING:
    from collections.abc import Mapping

    from dev.stack.hive.sql_session import Session
    from handlers.metastore.client import Metastore
    from handlers.structs.objects import Partition, Table


OWN_TO_A_SIDE: Final = frozenset({"transient_lastDdlTime"})


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster's view of the database."""

    metastore: Metastore
    sql: Session
    db: str


@dataclass(slots=True)
class TableComparison:
    """One table on both sides; ``differences`` is empty where they are equal."""

    name: str
    rows: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]
    write_ids: tuple[str, str] = ("", "")
    differences: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """The whole database on both sides."""

    tables: list[TableComparison]
    differences: list[str]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.all_differences()

    def all_differences(self) -> list[str]:
        """Return every difference, one line each."""
        return self.differences + [
            f"{table.name}: {line}" for table in self.tables for line in table.differences
        ]


def compare_databases(source: Side, target: Side, queries: Mapping[str, str]) -> Comparison:
    """Compare ``source`` with ``target``; ``queries`` gives the query of every table whose rows are read."""
    names = sorted(source.metastore.table_names(source.db))
    others = sorted(target.metastore.table_names(target.db))
    differences = [] if names == others else [f"tables: {names} at the source, {others} on the target"]
    both = [name for name in names if name in others]
    return Comparison([_compare_table(name, source, target, queries) for name in both], differences)


def _compare_table(name: str, source: Side, target: Side, queries: Mapping[str, str]) -> TableComparison:
    ours, theirs = source.metastore.get_table(source.db, name), target.metastore.get_table(target.db, name)
    rows = (_rows(source, name, queries), _rows(target, name, queries))
    result = TableComparison(name, rows)
    if rows[0] != rows[1]:
        result.differences.append(f"rows: {rows[0]} at the source, {rows[1]} on the target")
    result.differences += _object_differences("", _shown(ours), _shown(theirs))
    result.differences += _partition_differences(name, source, target)
    if (ours.parameters or {}).get("transactional") == "true":
        result.write_ids, lines = _write_ids(name, source, target)
        result.differences += lines
    result.differences += _statistics_differences(ours, source, target)
    return result


def _rows(side: Side, name: str, queries: Mapping[str, str]) -> list[tuple[str, ...]]:
    return side.sql.rows(queries[name].format(db=side.db)) if name in queries else []


def _shown(table: Table) -> dict[str, object]:
    sd = table.sd
    return {
        "type": table.tableType,
        "columns": [(column.name, column.type, column.comment) for column in sd.cols or []],
        "partition columns": [(column.name, column.type) for column in table.partitionKeys or []],
        "format": sd.inputFormat,
        "owner": table.owner,
        **_parameters(table.parameters),
    }


def _parameters(parameters: Mapping[str, str] | None) -> dict[str, object]:
    return {
        f"parameter {key}": value for key, value in (parameters or {}).items() if key not in OWN_TO_A_SIDE
    }


def _object_differences(prefix: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return [
        f"{prefix}{key}: {ours.get(key)!r} at the source, {theirs.get(key)!r} on the target"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]


def _partition_differences(name: str, source: Side, target: Side) -> list[str]:
    ours, theirs = _partitions(source, name), _partitions(target, name)
    lines = [f"partition {key}: only at the source" for key in sorted(ours.keys() - theirs.keys())]
    lines += [f"partition {key}: only on the target" for key in sorted(theirs.keys() - ours.keys())]
    for key in sorted(ours.keys() & theirs.keys()):
        lines += _object_differences(
            f"partition {key} ", _parameters(ours[key].parameters), _parameters(theirs[key].parameters)
        )
    return lines


def _partitions(side: Side, name: str) -> dict[str, Partition]:
    if not side.metastore.get_table(side.db, name).partitionKeys:
        return {}
    return {
        "/".join(partition.values or []): partition
        for partition in side.metastore.all_partitions(side.db, name)
    }


def _write_ids(name: str, source: Side, target: Side) -> tuple[tuple[str, str], list[str]]:
    ours, theirs = _valid(source, name), _valid(target, name)
    lines = [f"write ids {difference}" for difference in compare_write_ids(ours, theirs)]
    return (_short(ours), _short(theirs)), lines


def _valid(side: Side, name: str) -> ValidWriteIds:
    return side.metastore.valid_write_ids([f"{side.db}.{name}"])[0]


def _short(valid: ValidWriteIds) -> str:
    text = f"up to {valid.high_water_mark}"
    if valid.open:
        text += f", open {list(valid.open)}"
    return text + (f", aborted {list(valid.aborted)}" if valid.aborted else "")


def _statistics_differences(table: Table, source: Side, target: Side) -> list[str]:
    """Compare table-level column statistics as a reader gets them, hence against each side's own write-id list."""
    columns = [column.name or "" for column in table.sd.cols or []]
    name = table.tableName or ""
    if table.partitionKeys or table.tableType == "VIRTUAL_VIEW":
        return []
    ours, theirs = (
        {
            s.colName: s.statsData
            for s in side.metastore.table_statistics(
                side.db, name, columns, valid_write_ids=_valid(side, name).format()
            )
        }
        for side in (source, target)
    )
    return _object_differences("statistics of ", ours, theirs)


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
