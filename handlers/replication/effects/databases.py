"""Replay of database events: create, alter, drop."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from handlers.replication.target_objects import apply_database_changes, to_target_database
from handlers.structs.objects import Database
from state.errors import AlreadyExists, NotFound


if TYPE_CHECKING:
    from handlers.events import DatabaseAltered, DatabaseCreated, DatabaseDropped
    from handlers.metastore.client import Metastore
    from handlers.replication.context import Context
    from handlers.replication.policy import Policy


def create(event: DatabaseCreated, context: Context) -> None:
    """Create the target database; one that is there (bootstrap made it, or this is a repetition) stays as it is.

    From then on the source's change manager keeps what its writers delete.
    """
    policy = context.policy
    source = event.database.value if event.database is not None else Database(name=policy.source_db)
    with suppress(AlreadyExists):
        context.target.create_database(to_target_database(source, policy))
    with suppress(NotFound):
        mark_source(context.source, policy)


def alter(event: DatabaseAltered, context: Context) -> None:
    """Carry description, owner and parameters over; a database that is not there is no error (it was dropped later)."""
    try:
        target = context.target.get_database(context.policy.target_db)
    except NotFound:
        return
    context.target.alter_database(context.policy.target_db, apply_database_changes(event.after.value, target))


def drop(_event: DatabaseDropped, context: Context) -> None:
    """Drop the target database with what is left in it (the source has logged a drop of each table before)."""
    context.table_cache.clear()
    context.write_ids.drop_database(context.policy.source_db)
    context.quarantine.release_all()
    context.target_position.forget()
    try:
        context.target.drop_database(context.policy.target_db, cascade=True, delete_data=True)
    except NotFound:
        return


SOURCE_FOR: Final = "repl.source.for"


def mark_source(source: Metastore, policy: Policy) -> None:
    """Add the policy to the databases' mark; raise NotFound where there is no such database."""
    database = source.get_database(policy.source_db)
    parameters = database.parameters or {}
    users = [name.strip() for name in parameters.get(SOURCE_FOR, "").split(",") if name.strip()]
    if policy.name not in users:
        database.parameters = {**parameters, SOURCE_FOR: ",".join([*users, policy.name])}
        source.alter_database(policy.source_db, database)
