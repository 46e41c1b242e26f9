"""Replay of database events, and the parameters of source and target databases that replication needs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from handlers.structs.objects import Database
from state.errors import AlreadyExists, NotFound


if TYPE_CHECKING:
    from handlers.events import DatabaseAltered, DatabaseCreated, DatabaseDropped
    from handlers.metastore.client import Metastore
    from handlers.replication.context import Context
    from handlers.replication.policy.policy import Policy


SOURCE_FOR: Final = "repl.source.for"
TARGET_FOR: Final = "repl.target.for"


def create(event: DatabaseCreated, context: Context) -> None:
    """Create the target database and mark the source's; an existing target database stays unchanged.

    It exists after a bootstrap, or if the event repeats.
    """
    policy = context.policy
    source = event.database.value if event.database is not None else Database(name=policy.source_db)
    created = to_target_database(source, policy)
    created.parameters = {**(created.parameters or {}), **context.target_position.stamp}
    with suppress(AlreadyExists):
        context.target.create_database(created)
    with suppress(NotFound):
        mark_source(context.source, policy)


def alter(event: DatabaseAltered, context: Context) -> None:
    """Copy description, owner and parameters; do nothing if the database does not exist (a later event
    dropped it).
    """
    with suppress(NotFound):
        context.target_position.update(lambda target: apply_database_changes(event.after.value, target))


def drop(_event: DatabaseDropped, context: Context) -> None:
    """Drop the target database with its remaining contents;
    the source has logged a drop of each table before.
    """
    context.tables.forget_all()
    context.target_position.forget()
    try:
        context.target.drop_database(context.policy.target_db, cascade=True)
    except NotFound:
        return


def mark_source(source: Metastore, policy: Policy) -> None:
    """Add the policy to ``repl.source.for`` of the source database;
    raise NotFound if there is no such database.

    The change manager keeps deleted and renamed files only for databases with this parameter (reference:
    hive-replication.md §1.6). Tideline writes nothing else on the source, and this change logs no event
    there.
    """
    database = source.get_database(policy.source_db)
    parameters = database.parameters or {}
    users = [name.strip() for name in parameters.get(SOURCE_FOR, "").split(",") if name.strip()]
    if policy.name not in users:
        database.parameters = {**parameters, SOURCE_FOR: ",".join([*users, policy.name])}
        source.alter_database(policy.source_db, database)


def unmark_source(source: Metastore, policy: Policy) -> bool:
    """Remove the policy from ``repl.source.for``;
    return whether it was there. Raises NotFound if there is no such database.

    Hive refuses DROP DATABASE while the parameter has a value; the last policy therefore removes it.
    """
    database = source.get_database(policy.source_db)
    parameters = database.parameters or {}
    users = [name.strip() for name in parameters.get(SOURCE_FOR, "").split(",") if name.strip()]
    if policy.name not in users:
        return False
    others = {key: value for key, value in parameters.items() if key != SOURCE_FOR}
    left = [name for name in users if name != policy.name]
    database.parameters = others | {SOURCE_FOR: ",".join(left)} if left else others
    source.alter_database(policy.source_db, database)
    return True


def to_target_database(source: Database, policy: Policy) -> Database:
    """Return the target's form of a new source database; the target chooses its location.

    A database that a program created may have no owner. Hive 4.2 then answers every alter_database with an
    internal error, so the target's database gets an empty owner.
    """
    return Database(
        name=policy.target_db,
        description=source.description,
        parameters={**select_own_parameters(source), TARGET_FOR: "true"},
        ownerName=source.ownerName or "",
        ownerType=source.ownerType,
    )


def apply_database_changes(source: Database, target: Database) -> Database:
    """Copy description, owner and own parameters of ``source`` to ``target``;
    location and ``repl.*`` parameters stay.
    """
    of_replication = {k: v for k, v in (target.parameters or {}).items() if is_replication_parameter(k)}
    target.parameters = {**select_own_parameters(source), **of_replication}
    target.description = source.description
    target.ownerName = source.ownerName or ""
    target.ownerType = source.ownerType
    return target


def select_own_parameters(database: Database) -> dict[str, str]:
    """Return the parameters that do not belong to replication."""
    return {k: v for k, v in (database.parameters or {}).items() if not is_replication_parameter(k)}


def is_replication_parameter(key: str) -> bool:
    """Whether a database parameter belongs to replication and must not be copied."""
    return key.startswith(("repl.", "hive.repl.", "tideline."))


def list_tables(source: Metastore, policy: Policy) -> list[str]:
    """Return the replicated tables and views of the source database."""
    names = source.table_names(policy.source_db)
    return sorted(name for name in names if policy.covers(policy.source_db, name))


def list_tables_to_load(context: Context) -> tuple[str, ...]:
    """Return the tables of both sides that the policy covers; a database that does not exist has none."""
    policy = context.policy
    names: set[str] = set()
    with suppress(NotFound):
        names.update(list_tables(context.source, policy))
    with suppress(NotFound):
        names.update(context.target.table_names(policy.target_db))
    return tuple(sorted(name for name in names if policy.covers(policy.source_db, name)))


def renew_database(context: Context) -> None:
    """Give the target database the source's properties; create it if the source created it within the gap."""
    policy = context.policy
    try:
        source = context.source.get_database(policy.source_db)
    except NotFound:
        return
    mark_source(context.source, policy)
    try:
        context.target_position.update(lambda target: apply_database_changes(source, target))
    except NotFound:
        context.target.create_database(to_target_database(source, policy))
