"""Replay of permanent functions, with the files that contain their code.

A definition names jars by URIs of the source. Tideline copies them to ``functions_dir`` of the policy, into
their own directory for each function and time of creation: a jar in use by sessions is never replaced.
Without ``functions_dir``, and if the copy of a jar fails, replay omits the function and reports it like a
table without replication, under the name ``NAME()``. Hive's own replication has such a directory, too
(hive.repl.replica.functions.root.dir).

A function never stops a policy, and table patterns do not apply to it. URIs without a location, as of Ivy,
stay unchanged. Dropped functions leave their jars. The "files" of a SQL function of Spark are pieces of its
definition; Tideline rewrites them like a view's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from handlers.events import FunctionCreated, FunctionDropped, SourceFile
from handlers.files.copying.copies import build_copy_task
from handlers.files.paths import parse_location
from handlers.replication.context import Context
from handlers.replication.tables.table_entries import UnreplicatedTable
from handlers.replication.views.definitions import define_sql_function, is_sql_function
from handlers.replication.views.obstacles import find_function_obstacle, needs_copy
from handlers.structs.objects import Function, ResourceUri
from state.errors import AlreadyExists, BadInput, Inconsistent, NotFound, Refused, TidelineError, Unsupported


CODE: Final = "function"
LOADED_KEY: Final = b"functions-loaded"
"""Key in the store; present once the functions older than the first event are on the target."""


def name_of(event: FunctionCreated) -> str:
    """Return the name of the created function; ``?`` if the event's object is unreadable."""
    try:
        return (event.function.value.functionName or "?").lower()
    except BadInput:
        return "?"


def create(event: FunctionCreated, context: Context) -> None:
    """Create the function, or record the reason of a failure."""
    try:
        put(event.function.copy(), event.event_id, context)
    except BadInput as error:
        report(name_of(event), event.event_id, error, context)


def put(function: Function, event_id: int, context: Context) -> None:
    """Create the function on the target, or replace another one of its name."""
    name = (function.functionName or "").lower()
    try:
        _put(name, function, context)
    except NotFound:
        return  # a later event dropped the database
    except (BadInput, Refused, Inconsistent) as error:
        report(name, event_id, error, context)
    else:
        context.tables.unreplicated.remove(_entry_name(name))


def _put(name: str, function: Function, context: Context) -> None:
    function.dbName = context.policy.target_db
    function.catName = None
    function.resourceUris = _define_resources(name, function, context)
    try:
        context.target.create_function(function)
    except AlreadyExists:
        present = context.target.get_function(context.policy.target_db, name)
        if _identity(present) == _identity(function):
            return
        context.target.drop_function(context.policy.target_db, name)
        context.target.create_function(function)


def _define_resources(name: str, function: Function, context: Context) -> list[ResourceUri]:
    """Return the files of the function on the target, after copying them there; of a SQL function its query
    there.
    """
    if not is_sql_function(function):
        return [_copy(name, each, function, context) for each in function.resourceUris or []]
    reason = find_function_obstacle(function, context.policy, context.source)
    if reason is not None:
        raise Unsupported("the function cannot be used on the target", function=name, reason=reason)
    return define_sql_function(function, context.policy)[0]


def _identity(function: Function) -> tuple[str | None, list[tuple[int | None, str | None]]]:
    uris = [(each.resourceType, each.uri) for each in function.resourceUris or []]
    return function.className, uris


def _copy(name: str, resource: ResourceUri, function: Function, context: Context) -> ResourceUri:
    """Copy a file of the function to the target, and return it with its URI there."""
    uri = resource.uri or ""
    if not needs_copy(uri):
        return resource
    base = context.policy.functions_dir
    if base is None:
        raise Unsupported(
            "the function has files, and the policy has no directory for them",
            function=name,
            uri=uri,
            hint=f"Set policies.{context.policy.name}.functions_dir, then create the function again.",
        )
    parse_location(uri)  # raises UnsafePath
    directory = f"{base.rstrip('/')}/{context.policy.target_db}/{name}/{function.createTime or 0}"
    task = build_copy_task(SourceFile(uri), directory)
    context.copies.wait([context.copies.submit(task)])
    return ResourceUri(resourceType=resource.resourceType, uri=task.target_uri)


def drop(event: FunctionDropped, context: Context) -> None:
    """Drop the function; do nothing if there is none."""
    context.tables.unreplicated.remove(_entry_name(event.name))
    with suppress(NotFound):
        context.target.drop_function(context.policy.target_db, event.name)


def report(name: str, event_id: int, error: TidelineError, context: Context) -> None:
    """Record a function without replication, with the reason."""
    entry = UnreplicatedTable(_entry_name(name), event_id, CODE, str(error))
    if context.tables.unreplicated.get(entry.table) != entry:
        context.tables.unreplicated.put(entry)
        context.observer.table_unreplicated(f"{context.policy.source_db}.{entry.table}", CODE, entry.reason)


def load(event_id: int, context: Context) -> None:
    """Create the current functions of the source; replay of events after ``event_id`` follows."""
    db = context.policy.source_db
    for name in context.source.function_names(db):
        with suppress(NotFound):
            put(context.source.get_function(db, name), event_id, context)


def _entry_name(function: str) -> str:
    """Return the name under which a function is listed, which no table can have."""
    return f"{function}()"
