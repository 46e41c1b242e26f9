"""The mark on a source database that is replicated.

The change manager keeps deleted and renamed files only for databases whose parameter ``repl.source.for`` names somebody
(reference: hive-replication.md §1.6). It is the one thing that Tideline writes on the source, and it logs no event there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy


SOURCE_FOR: Final = "repl.source.for"


def mark_source(source: Metastore, policy: Policy) -> None:
    """Add the policy to the databases' mark; raise NotFound where there is no such database."""
    database = source.get_database(policy.source_db)
    parameters = database.parameters or {}
    users = [name.strip() for name in parameters.get(SOURCE_FOR, "").split(",") if name.strip()]
    if policy.name not in users:
        database.parameters = {**parameters, SOURCE_FOR: ",".join([*users, policy.name])}
        source.alter_database(policy.source_db, database)
