"""Replay of database events: create, alter, drop."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from handlers.replication.marking import mark_source
from handlers.replication.shaping import altered_database, database_for_target
from handlers.structs.objects import Database
from state.errors import AlreadyExists, NotFound


if TYPE_CHECKING:
    from handlers.events import DatabaseAltered, DatabaseCreated, DatabaseDropped
    from handlers.replication.context import Context


def create(event: DatabaseCreated, context: Context) -> None:
    """Create the target database; one that is there (bootstrap made it, or this is a repetition) stays as it is.

    From then on the source's change manager keeps what its writers delete.
    """
    policy = context.policy
    source = event.database.value if event.database is not None else Database(name=policy.source_db)
    with suppress(AlreadyExists):
        context.target.create_database(database_for_target(source, policy))
    with suppress(NotFound):
        mark_source(context.source, policy)


def alter(event: DatabaseAltered, context: Context) -> None:
    """Carry description, owner and parameters over; a database that is not there is no error (it was dropped later)."""
    try:
        target = context.target.get_database(context.policy.target_db)
    except NotFound:
        return
    context.target.alter_database(context.policy.target_db, altered_database(event.after.value, target))


def drop(_event: DatabaseDropped, context: Context) -> None:
    """Drop the target database with what is left in it (the source has logged a drop of each table before)."""
    context.seen.forget_all()
    context.write_ids.drop_database(context.policy.source_db)
    context.quarantine.release_all()
    context.last_id.forget()
    try:
        context.target.drop_database(context.policy.target_db, cascade=True, delete_data=True)
    except NotFound:
        return
