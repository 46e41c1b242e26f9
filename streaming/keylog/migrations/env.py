"""What alembic runs around the scripts: on the connection, and inside the transaction, that ``streaming.keylog.migrator`` holds."""

from __future__ import annotations

from alembic import context

from streaming.keylog.schema import PREFIX, metadata


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=f"{PREFIX}keylog_version",
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
