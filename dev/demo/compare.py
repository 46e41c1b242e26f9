"""Compares a database on two clusters: rows as SQL reads them, and everything else that the metastores store.

It compares table names, rows, parameters, columns, partitions (names and parameters), column statistics,
valid write-id lists, and the files of aborted transactions. It leaves out parameters that each cluster sets
itself (the time of the last DDL).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dev.stack.hive.sql_session import Session
from handlers.files.listing import list_plain_files
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.structs.objects import Partition, Table
from state.errors import NotFound
from state.transactions.valid_write_ids import ValidWriteIds, compare_write_ids


LOCAL_PARAMETERS: Final = frozenset({"transient_lastDdlTime"})


@dataclass(frozen=True, slots=True)
class Side:
    """The database on one cluster."""

    metastore: Metastore
    sql: Session
    db: str


@dataclass(slots=True)
class TableComparison:
    """One table on both clusters; ``differences`` is empty if they are equal."""

    name: str
    rows: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]
    write_ids: tuple[str, str] = ("", "")
    differences: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """The complete database on both clusters."""

    tables: list[TableComparison]
    differences: list[str]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.list_differences()

    def list_differences(self) -> list[str]:
        """Return all differences, one line each."""
        return self.differences + [
            f"{table.name}: {line}" for table in self.tables for line in table.differences
        ]


def compare_databases(
    source: Side, target: Side, queries: Mapping[str, str], *, of_rows: bool = False
) -> Comparison:
    """Compare ``source`` with ``target``; ``queries`` contains a query for each table whose rows are
    compared.

    With ``of_rows``, omits definitions and statistics.
    """
    names = sorted(source.metastore.table_names(source.db))
    others = sorted(target.metastore.table_names(target.db))
    differences = [] if names == others else [f"tables: {names} at the source, {others} on the target"]
    both = [name for name in names if name in others]
    tables = [_compare_table(name, source, target, queries, of_rows=of_rows) for name in both]
    return Comparison(tables, differences)


def _compare_table(
    name: str, source: Side, target: Side, queries: Mapping[str, str], *, of_rows: bool
) -> TableComparison:
    ours, theirs = source.metastore.get_table(source.db, name), target.metastore.get_table(target.db, name)
    rows = (_read_rows(source, name, queries), _read_rows(target, name, queries))
    result = TableComparison(name, rows)
    if rows[0] != rows[1]:
        result.differences.append(f"rows: {rows[0]} at the source, {rows[1]} on the target")
    if not of_rows:
        result.differences += _compare_objects("", _describe(ours), _describe(theirs))
        result.differences += _compare_partitions(name, source, target)
        result.differences += _compare_statistics(ours, source, target)
    if (ours.parameters or {}).get("transactional") == "true":
        result.write_ids, lines = _compare_write_ids(name, source, target)
        result.differences += lines
    return result


def _read_rows(side: Side, name: str, queries: Mapping[str, str]) -> list[tuple[str, ...]]:
    return side.sql.rows(queries[name].format(db=side.db)) if name in queries else []


def _describe(table: Table) -> dict[str, object]:
    sd = table.sd
    return {
        "type": table.tableType,
        "columns": [(column.name, column.type, column.comment) for column in sd.cols or []],
        "partition columns": [(column.name, column.type) for column in table.partitionKeys or []],
        "format": sd.inputFormat,
        "owner": table.owner,
        **_select_parameters(table.parameters),
    }


def _select_parameters(parameters: Mapping[str, str] | None) -> dict[str, object]:
    return {
        f"parameter {key}": value for key, value in (parameters or {}).items() if key not in LOCAL_PARAMETERS
    }


def _compare_objects(prefix: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return [
        f"{prefix}{key}: {ours.get(key)!r} at the source, {theirs.get(key)!r} on the target"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]


def _compare_partitions(name: str, source: Side, target: Side) -> list[str]:
    ours, theirs = _read_partitions(source, name), _read_partitions(target, name)
    lines = [f"partition {key}: only at the source" for key in sorted(ours.keys() - theirs.keys())]
    lines += [f"partition {key}: only on the target" for key in sorted(theirs.keys() - ours.keys())]
    for key in sorted(ours.keys() & theirs.keys()):
        lines += _compare_objects(
            f"partition {key} ",
            _select_parameters(ours[key].parameters),
            _select_parameters(theirs[key].parameters),
        )
    return lines


def _read_partitions(side: Side, name: str) -> dict[str, Partition]:
    if not side.metastore.get_table(side.db, name).partitionKeys:
        return {}
    return {
        "/".join(partition.values or []): partition
        for partition in side.metastore.all_partitions(side.db, name)
    }


def _compare_write_ids(name: str, source: Side, target: Side) -> tuple[tuple[str, str], list[str]]:
    ours, theirs = _read_valid(source, name), _read_valid(target, name)
    lines = [f"write ids {difference}" for difference in compare_write_ids(ours, theirs)]
    return (_format_valid(ours), _format_valid(theirs)), lines


def _read_valid(side: Side, name: str) -> ValidWriteIds:
    return side.metastore.valid_write_ids([f"{side.db}.{name}"])[0]


def _format_valid(valid: ValidWriteIds) -> str:
    text = f"up to {valid.high_water_mark}"
    if valid.open:
        text += f", open {list(valid.open)}"
    return text + (f", aborted {list(valid.aborted)}" if valid.aborted else "")


def _compare_statistics(table: Table, source: Side, target: Side) -> list[str]:
    """Compare table-level column statistics as readers see them, that is, with the write-id list of each
    cluster.
    """
    columns = [column.name or "" for column in table.sd.cols or []]
    name = table.tableName or ""
    if table.partitionKeys or table.tableType == "VIRTUAL_VIEW":
        return []
    ours, theirs = (
        {
            s.colName: s.statsData
            for s in side.metastore.table_statistics(
                side.db, name, columns, valid_write_ids=_read_valid(side, name).format()
            )
        }
        for side in (source, target)
    )
    return _compare_objects("statistics of ", ours, theirs)


@dataclass(frozen=True, slots=True)
class AbortedFiles:
    """Files of aborted write ids of one table, on both clusters."""

    write_ids: tuple[int, ...]
    at_source: tuple[str, ...]
    on_target: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether the source has such files, which makes this a proof, and the target has none."""
        return bool(self.at_source) and not self.on_target


def find_aborted_files(source: Side, target: Side, table: str) -> AbortedFiles:
    """Find the files of the write ids that are aborted at the source."""
    write_ids = source.metastore.valid_write_ids([f"{source.db}.{table}"])[0].aborted
    return AbortedFiles(
        write_ids, _find_files(source, table, write_ids), _find_files(target, table, write_ids)
    )


def _find_files(side: Side, table: str, write_ids: tuple[int, ...]) -> tuple[str, ...]:
    location = side.metastore.get_table(side.db, table).sd.location
    if location is None or not write_ids:
        return ()
    aborted = tuple(f"delta_{write_id:07d}_{write_id:07d}" for write_id in write_ids)
    try:
        files = list_plain_files(open_file_systems(), location)
    except NotFound:
        return ()
    paths = (f"{file.subdir}/{parse_location(file.uri).name}" for file in files)
    return tuple(sorted(path for path in paths if any(name in path for name in aborted)))
