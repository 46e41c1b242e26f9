"""Compares the permanent functions of both databases.

Replay copies the files of a function into a directory of the target, so their URIs differ by design: kinds and file names are compared.
A function that replay has left out is counted, because ``tideline status`` names it with the reason.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from handlers.replication.verification.facts import Facts, compare_facts
from handlers.replication.verification.findings import Finding, NotCompared
from handlers.replication.views.spark import define_sql_function, is_sql_function
from handlers.structs.functions import ResourceType
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from handlers.replication.verification.reading import Side
    from handlers.structs.functions import Function, ResourceUri


def compare_functions(source: Side, target: Side, left_out: Collection[str]) -> Iterator[Finding]:
    """Yield what differs; ``left_out`` has functions as ``NAME()``. Raises errors of the metastores, except NotFound."""
    ours, theirs = describe_functions(source), describe_functions(target)
    skipped = [fact for fact in ours if f"{fact[1]}()" in left_out]
    for fact in skipped:
        ours.pop(fact)
        theirs.pop(fact, None)  # an earlier one of this name
    if skipped:
        yield NotCompared("functions", len(skipped))
    yield from compare_facts(ours, theirs)


def describe_functions(side: Side) -> Facts:
    """Return a fact for each function of the database; one that is dropped meanwhile is left out."""
    facts: Facts = {}
    for name in side.metastore.function_names(side.db):
        try:
            function = side.metastore.get_function(side.db, name)
            if side.at_source and is_sql_function(function):
                function.resourceUris = define_sql_function(function, side.policy)[0]
            facts["function", name.lower()] = _describe(function)
        except NotFound:
            continue
        side.beat()
    return facts


def _describe(function: Function) -> str:
    owner = f"{function.ownerName or ''} ({function.ownerType})"
    files = ", ".join(sorted(map(_describe_file, function.resourceUris or [])))
    return f"class {function.className} of owner {owner}" + (f" with {files}" if files else "")


def _describe_file(resource: ResourceUri) -> str:
    kind = "?" if resource.resourceType is None else ResourceType(resource.resourceType).name
    return f"{kind} {posixpath.basename(resource.uri or '')}"
