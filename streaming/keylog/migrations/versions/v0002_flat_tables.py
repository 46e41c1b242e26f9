"""Snapshots of flat tables, written by their Spark drivers, and the history of their columns, both for
display.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String

from streaming.keylog.schema import TABLE_OPTIONS, AsciiName, Document


revision: Final = "0002"
down_revision: Final = "0001"


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "tideline_flat_table",
        Column("name", AsciiName, primary_key=True),
        Column("version", BigInteger, nullable=False, comment="of the layout"),
        Column("updated_at", BigInteger, nullable=False, comment="seconds since 1970"),
        Column(
            "document", Document, nullable=False, comment="JSON for the page: layout, fill rates, reasons"
        ),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )
    op.create_table(
        "tideline_flat_change",
        Column("flat_table", AsciiName, primary_key=True),
        Column("version", BigInteger, primary_key=True, autoincrement=False),
        Column("n", Integer, primary_key=True, autoincrement=False, comment="order within the version"),
        Column("at", BigInteger, nullable=False, comment="seconds since 1970"),
        Column("kind", String(32), nullable=False),
        Column("slot", Integer, nullable=True),
        Column("path", String(4096), nullable=False, comment="the key; empty where none is concerned"),
        Column("reason", String(1024), nullable=False),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )
