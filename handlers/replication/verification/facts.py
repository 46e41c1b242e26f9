"""Facts about a table, partition, function or database:
a flat mapping, so that one rule compares all of them.

A fact has a kind and a name. The facts of a source object are those that replay gives its copy: it replaces
names of the source database in views and constraints, and maps the locations of external tables. It omits
parameters that each side sets itself, and compares statistics by their own rules (``descriptions``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from handlers.replication.effects.databases import select_own_parameters
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import STATISTICS, rename_view
from handlers.replication.verification.findings import Difference, Finding, Kind, NotCompared
from handlers.replication.views.definitions import define_sql_function, is_sql_function
from handlers.structs.constraints import FOREIGN_KEY, ConstraintKind
from handlers.structs.objects import (
    Database,
    FieldSchema,
    Function,
    PrincipalType,
    ResourceType,
    ResourceUri,
    StorageDescriptor,
    Table,
)
from handlers.structs.struct import Struct


Facts = dict[tuple[Kind, str], str]

LOCAL_PARAMETERS: Final = frozenset({"transient_lastDdlTime"})
LOCAL_PREFIXES: Final = (
    "repl.",
    "hive.repl.",
    "tideline.",
    "cube.storagetable.partition.timeline.cache.",
)
"""Parameters of replication, of loads, and of timelines, which the catalog publishes to targets."""


def describe_database(database: Database) -> Facts:
    """Return the common part of the databases of both sides; names, locations and replication parameters
    differ.
    """
    facts: Facts = {("database", "description"): database.description or ""}
    facts["database", "owner"] = _describe_owner(database.ownerName, database.ownerType)
    for key, value in select_own_parameters(database).items():
        if not is_local(key):
            facts["database", f"parameter {key}"] = value
    return facts


_FORMAT: Final = "serialization.format"
_DEFAULT_FORMAT: Final = "1"
"""Hive before 4 writes it into every table, and a metastore of Hive 4.2 keeps no serde parameters of ACID
tables."""


def describe_table(table: Table, policy: Policy | None) -> Facts:
    """Return the facts of a table of the target,
    or with ``policy`` those that a source table has after replay.
    """
    if policy is not None and is_view(table):
        table = rename_view(table.copy(), policy)
    facts: Facts = {
        ("type", ""): table.tableType or "",
        ("owner", ""): _describe_owner(table.owner, table.ownerType),
    }
    facts |= _describe_columns("partition-column", table.partitionKeys)
    facts |= _describe_storage(table.sd) | describe_parameters(table.parameters)
    if is_view(table):
        for name, text in (("original", table.viewOriginalText), ("expanded", table.viewExpandedText)):
            facts["view", f"{name} text"] = text or ""
    return facts


def _describe_owner(name: str | None, kind: int | None) -> str:
    """Return name and kind of an owner; Hive 2.3 has no kinds, like a user elsewhere."""
    return f"{name or ''} ({int(PrincipalType.USER if kind is None else kind)})"


def describe_parameters(parameters: Mapping[str, str] | None) -> Facts:
    """Return the parameters that must be equal, without statistics."""
    return {
        ("parameter", key): value
        for key, value in (parameters or {}).items()
        if not is_local(key) and key not in STATISTICS
    }


def is_local(key: str) -> bool:
    """Whether a parameter differs by design."""
    return key in LOCAL_PARAMETERS or key.startswith(LOCAL_PREFIXES)


def _describe_columns(kind: Kind, columns: Iterable[FieldSchema] | None) -> Facts:
    """Return the columns with their positions, so that another order differs as well."""
    return {
        (kind, column.name or ""): f"{position}: {column.type}"
        + (f" comment {column.comment}" if column.comment else "")
        for position, column in enumerate(columns or [], 1)
    }


def _describe_storage(storage: StorageDescriptor | None) -> Facts:
    if storage is None:
        return {}
    serde = storage.serdeInfo
    values: dict[str, object] = {
        "input format": storage.inputFormat,
        "output format": storage.outputFormat,
        "serde": serde.serializationLib if serde else None,
        "buckets": storage.numBuckets,
        "bucket columns": ", ".join(storage.bucketCols or []),
        "sort columns": ", ".join(f"{each.col} {each.order}" for each in storage.sortCols or []),
        "skewed columns": ", ".join((storage.skewedInfo and storage.skewedInfo.skewedColNames) or []),
    }
    serde_parameters = {**((serde and serde.parameters) or {})}
    if serde_parameters.get(_FORMAT) == _DEFAULT_FORMAT:
        del serde_parameters[_FORMAT]
    values |= {f"serde parameter {key}": value for key, value in serde_parameters.items()}
    values |= {f"parameter {key}": value for key, value in (storage.parameters or {}).items()}
    storage_facts: Facts = {
        ("storage", name): str(value) for name, value in values.items() if value not in {None, ""}
    }
    return _describe_columns("column", storage.cols) | storage_facts


def describe_partition(storage: StorageDescriptor | None, parameters: Mapping[str, str] | None) -> Facts:
    """Return the facts of a partition."""
    return _describe_storage(storage) | describe_parameters(parameters)


def describe_constraints(
    kind: ConstraintKind[Any], columns: Iterable[Struct], policy: Policy | None
) -> Iterator[tuple[tuple[Kind, str], str] | NotCompared]:
    """Yield the facts of the constraints of one kind;
    with ``policy``, those that replay gives to source constraints.

    A foreign key to a table that is not replicated cannot exist on the target, and is not compared.
    """
    for column in columns:
        values = column.set_fields()
        if kind is FOREIGN_KEY and policy is not None:
            referred = (
                str(values.get("pktable_db", "")).lower(),
                str(values.get("pktable_name", "")).lower(),
            )
            if not policy.covers(*referred):
                yield NotCompared("constraints")
                continue
        dropped = {"catName", "table_db", "fktable_db", "pktable_db", kind.name_field}
        text = ", ".join(f"{name}={values[name]}" for name in sorted(values.keys() - dropped))
        position = values.get("fkcolumn_name") or values.get("column_name")
        yield ("constraint", f"{kind.name_of(column)} {position}"), text


def describe_function(function: Function, policy: Policy | None) -> str:
    """Return the fact of a function of the target, or with ``policy`` that of a source function after replay.

    Replay copies the files of a function into a directory of the target, so their URIs differ by design:
    kinds and file names are compared.
    """
    resources = function.resourceUris or []
    if policy is not None and is_sql_function(function):
        resources = define_sql_function(function, policy)[0]
    files = ", ".join(sorted(map(_describe_resource, resources)))
    owner = f"{function.ownerName or ''} ({function.ownerType})"
    return f"class {function.className} of owner {owner}" + (f" with {files}" if files else "")


def _describe_resource(resource: ResourceUri) -> str:
    kind = "?" if resource.resourceType is None else ResourceType(resource.resourceType).name
    return f"{kind} {posixpath.basename(resource.uri or '')}"


def compare_functions(source: Facts, target: Facts, left_out: Collection[str]) -> Iterator[Finding]:
    """Yield the functions that differ.

    Functions in ``left_out`` (as ``NAME()``) are only counted, because ``tideline status`` names them with
    the reason. The target may have an earlier function of such a name.
    """
    skipped = {fact for fact in source if f"{fact[1]}()" in left_out}
    if skipped:
        yield NotCompared("functions", len(skipped))
    ours, theirs = ({fact: side[fact] for fact in side.keys() - skipped} for side in (source, target))
    yield from compare_facts(ours, theirs)


def compare_facts(source: Facts, target: Facts, prefix: str = "") -> Iterator[Finding]:
    """Yield a difference for every fact that is not the same on both sides."""
    for fact in sorted({*source, *target}):
        ours, theirs = source.get(fact), target.get(fact)
        if ours != theirs:
            yield Difference(fact[0], prefix + fact[1], ours, theirs)
