"""Renames the table ``tideline_asked`` to ``tideline_request``, and two of its columns.

MySQL commits each statement, so the script skips steps that an earlier process completed.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, inspect

from streaming.keylog.schema import Digest


revision: Final = "0003"
down_revision: Final = "0002"

_OLD: Final = "tideline_asked"


def upgrade() -> None:
    """Rename the columns, then the table."""
    database = inspect(op.get_bind())
    if not database.has_table(_OLD):
        return
    columns = {column["name"] for column in database.get_columns(_OLD)}
    if "asker_digest" in columns:
        op.alter_column(
            _OLD,
            "asker_digest",
            new_column_name="requester_digest",
            existing_type=Digest,
            existing_nullable=False,
            existing_comment="of user_name, source and fingerprint",
        )
    if "asked_count" in columns:
        op.alter_column(
            _OLD,
            "asked_count",
            new_column_name="run_count",
            existing_type=BigInteger(),
            existing_nullable=False,
            existing_comment="runs of the query on that day",
        )
    op.rename_table(_OLD, "tideline_request")
