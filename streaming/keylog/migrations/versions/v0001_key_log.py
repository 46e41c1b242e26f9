"""The key log: keys, the requests for them, the positions of the sources, and the rules for keys.

The script creates only tables that are missing. MySQL commits each statement, so if a process was killed, the
next one continues.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String, Text

from streaming.keylog.schema import TABLE_OPTIONS, AsciiName, AsciiWord, Digest, Document


revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    """Create the four tables."""
    _keys()
    _asked()
    _mined()
    _rules()


def _keys() -> None:
    op.create_table(
        "tideline_key",
        Column("digest", Digest, primary_key=True, comment="of raw_table and members"),
        Column("raw_table", String(512), nullable=False),
        Column("path", String(4096), nullable=False, comment="the key as people write it"),
        Column("members", Text, nullable=False, comment="the key exactly: a JSON list in ASCII"),
        Column("last_day", Integer, nullable=False, comment="days since 1970 (UTC), newest question"),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )


def _asked() -> None:
    op.create_table(
        "tideline_asked",
        Column("day", Integer, primary_key=True, autoincrement=False, comment="days since 1970 (UTC)"),
        Column("key_digest", Digest, primary_key=True),
        Column("asker_digest", Digest, primary_key=True, comment="of user_name, source and fingerprint"),
        Column("user_name", String(128), nullable=False, comment="empty where nobody knows"),
        Column("source", String(128), nullable=False, comment="where the query was found"),
        Column("fingerprint", String(64), nullable=False, comment="of the query's text"),
        Column("asked_count", BigInteger, nullable=False, comment="runs of the query on that day"),
        Column("first_at", BigInteger, nullable=False, comment="seconds since 1970"),
        Column("last_at", BigInteger, nullable=False, comment="seconds since 1970"),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )


def _mined() -> None:
    op.create_table(
        "tideline_mined",
        Column("source_digest", Digest, primary_key=True),
        Column("source", String(128), nullable=False),
        Column("position", Document, nullable=False, comment="how far it was read; the source's own form"),
        Column("updated_at", BigInteger, nullable=False, comment="seconds since 1970"),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )


def _rules() -> None:
    op.create_table(
        "tideline_rule",
        Column("flat_table", AsciiName, primary_key=True),
        Column("kind", AsciiWord, primary_key=True, comment="always, skip or pin"),
        Column("subject_digest", Digest, primary_key=True),
        Column("subject", String(4096), nullable=False, comment="a key; of kind skip a pattern"),
        Column("members", Text, nullable=False, comment="the key exactly; empty for a pattern"),
        Column("type", String(16), nullable=False, comment="of a pin; else empty"),
        Column("set_by", String(128), nullable=False),
        Column("set_at", BigInteger, nullable=False, comment="seconds since 1970"),
        if_not_exists=True,
        **TABLE_OPTIONS,
    )
