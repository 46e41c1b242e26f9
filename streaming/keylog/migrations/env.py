"""Alembic's environment for the scripts: they run on the connection and in the transaction of
``streaming.keylog.migrator``.
"""

from __future__ import annotations

from alembic import context

from streaming.keylog.schema import PREFIX, metadata


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=f"{PREFIX}keylog_version",
    transactional_ddl=False,  # the caller manages the transaction
)
context.run_migrations()
