"""The tables of the key log, for SQLite, MySQL/MariaDB and PostgreSQL.

Operators may query this database with SQL, and other programs may share it. Tables therefore have a common
prefix, and texts are stored as texts. Texts cannot be primary keys, because a key may have 1,024 characters,
and old versions of InnoDB index only 767 bytes. Instead, primary keys contain 16-byte digests (``digest``);
the longest one has 289 bytes.

``request_table`` is ordered by day: the rows of the last k days are one range of the primary key, and so are
the rows that retention deletes. Texts compare byte by byte on every server; MySQL's default would treat
``Foo`` and ``foo`` as equal.

These definitions are the newest version of the schema; ``migrations`` holds the steps that lead to it. Column
comments are part of the schema, so they keep their wording.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql


PREFIX: Final = "tideline_"
DIGEST_BYTES: Final = 16
RAW_TABLE_CHARS: Final = 512
USER_CHARS: Final = 128
SOURCE_CHARS: Final = 128
FINGERPRINT_CHARS: Final = 64
PATH_CHARS: Final = 4_096
"""A key of 1,024 characters, each of them escaped, with its quotes."""
FLAT_TABLE_CHARS: Final = 257
REASON_CHARS: Final = 1_024

MYSQL: Final = ("mysql", "mariadb")
TABLE_OPTIONS: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
    "sqlite_with_rowid": False,
}

Digest: Final = LargeBinary(DIGEST_BYTES).with_variant(mysql.BINARY(DIGEST_BYTES), *MYSQL)
AsciiName: Final = String(FLAT_TABLE_CHARS).with_variant(
    mysql.VARCHAR(FLAT_TABLE_CHARS, charset="ascii", collation="ascii_bin"), *MYSQL
)
AsciiWord: Final = String(16).with_variant(mysql.VARCHAR(16, charset="ascii", collation="ascii_bin"), *MYSQL)
Document: Final = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *MYSQL)

metadata: Final = MetaData()

key_table: Final = Table(
    PREFIX + "key",
    metadata,
    Column("digest", Digest, primary_key=True, comment="of raw_table and members"),
    Column("raw_table", String(RAW_TABLE_CHARS), nullable=False),
    Column("path", String(PATH_CHARS), nullable=False, comment="the key as people write it"),
    Column("members", Text, nullable=False, comment="the key exactly: a JSON list in ASCII"),
    Column("last_day", Integer, nullable=False, comment="days since 1970 (UTC), newest question"),
    **TABLE_OPTIONS,
)

request_table: Final = Table(
    PREFIX + "request",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False, comment="days since 1970 (UTC)"),
    Column("key_digest", Digest, primary_key=True),
    Column("requester_digest", Digest, primary_key=True, comment="of user_name, source and fingerprint"),
    Column("user_name", String(USER_CHARS), nullable=False, comment="empty where nobody knows"),
    Column("source", String(SOURCE_CHARS), nullable=False, comment="where the query was found"),
    Column("fingerprint", String(FINGERPRINT_CHARS), nullable=False, comment="of the query's text"),
    Column("run_count", BigInteger, nullable=False, comment="runs of the query on that day"),
    Column("first_at", BigInteger, nullable=False, comment="seconds since 1970"),
    Column("last_at", BigInteger, nullable=False, comment="seconds since 1970"),
    **TABLE_OPTIONS,
)

position_table: Final = Table(
    PREFIX + "mined",
    metadata,
    Column("source_digest", Digest, primary_key=True),
    Column("source", String(SOURCE_CHARS), nullable=False),
    Column("position", Document, nullable=False, comment="how far it was read; the source's own form"),
    Column("updated_at", BigInteger, nullable=False, comment="seconds since 1970"),
    **TABLE_OPTIONS,
)

rule_table: Final = Table(
    PREFIX + "rule",
    metadata,
    Column("flat_table", AsciiName, primary_key=True),
    Column("kind", AsciiWord, primary_key=True, comment="always, skip or pin"),
    Column("subject_digest", Digest, primary_key=True),
    Column("subject", String(PATH_CHARS), nullable=False, comment="a key; of kind skip a pattern"),
    Column("members", Text, nullable=False, comment="the key exactly; empty for a pattern"),
    Column("type", String(16), nullable=False, comment="of a pin; else empty"),
    Column("set_by", String(USER_CHARS), nullable=False),
    Column("set_at", BigInteger, nullable=False, comment="seconds since 1970"),
    **TABLE_OPTIONS,
)

snapshot_table: Final = Table(
    PREFIX + "flat_table",
    metadata,
    Column("name", AsciiName, primary_key=True),
    Column("version", BigInteger, nullable=False, comment="of the layout"),
    Column("updated_at", BigInteger, nullable=False, comment="seconds since 1970"),
    Column("document", Document, nullable=False, comment="JSON for the page: layout, fill rates, reasons"),
    **TABLE_OPTIONS,
)

change_table: Final = Table(
    PREFIX + "flat_change",
    metadata,
    Column("flat_table", AsciiName, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("n", Integer, primary_key=True, autoincrement=False, comment="order within the version"),
    Column("at", BigInteger, nullable=False, comment="seconds since 1970"),
    Column("kind", String(32), nullable=False),
    Column("slot", Integer, nullable=True),
    Column("path", String(PATH_CHARS), nullable=False, comment="the key; empty where none is concerned"),
    Column("reason", String(REASON_CHARS), nullable=False),
    **TABLE_OPTIONS,
)


def digest(*parts: str) -> bytes:
    """Return 16 bytes that identify these texts in this order. Lengths are included, so different lists
    differ.
    """
    hashed = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        hashed.update(len(text).to_bytes(8, "big"))
        hashed.update(text)
    return hashed.digest()
