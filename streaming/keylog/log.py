"""The key log: what was asked is recorded together with how far its source was read.

What is one row: a key of a raw table, asked by a user through a query text (its fingerprint) found in a source, on a day. A query
that runs every minute is one row a day with a count, so the log grows with what people ask, not with how often.

What makes a repetition harmless: the position of the source changes in the same transaction. A batch whose position is stored
already has no effect, one that does not continue from where this log last saw the source is refused (two miners of one source
would count twice). Where a source has no position (standard input), a repetition adds to counts; users and days, by which keys
are ranked, stay as they are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import select

from state.errors import Conflict
from streaming.keylog.database import Database, greater, lesser, upsert
from streaming.keylog.migrator import migrate
from streaming.keylog.records import (
    EARLIEST_S,
    FUTURE_S,
    KeyRequest,
    day_of,
    encode_members,
    make_storable,
    pack_position,
    unpack_position,
)
from streaming.keylog.schema import (
    FINGERPRINT_CHARS,
    PATH_CHARS,
    RAW_TABLE_CHARS,
    SOURCE_CHARS,
    USER_CHARS,
    asked,
    digest,
    keys,
    mined,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from sqlalchemy import Connection

    from state.columns.paths import KeyPath


ROWS_PER_STATEMENT: Final = 2_000


@dataclass(frozen=True, slots=True)
class RecordResult:
    """What became of a batch."""

    rows: int = 0
    """Rows that were added or counted up."""
    refused: int = 0
    """Questions left out because their time cannot be: before 2000, or in the future."""
    is_repeated: bool = False
    """It was recorded before, and had no effect."""


class KeyLog:
    """An open key log; a context manager. Usable from several threads, and by several processes on one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        self.clock = clock
        self._seen: dict[str, str | None] = {}

    @classmethod
    def open(
        cls, address: str, *, password: str | None = None, clock: Callable[[], float] = time.time
    ) -> Self:
        """Open the database at SQLAlchemy's URL ``address`` and bring its schema up to date.

        Raises ConfigError for an address that cannot be, KeyLogUnavailable where nothing answers, StateCorrupt where the
        schema is newer than this program.
        """
        database = Database(address, password)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database, clock)

    def position(self, source: str) -> str | None:
        """Return how far ``source`` was read, None where it never was; ``record`` goes on from there."""
        with self.database.read() as connection:
            found = _stored_position(connection, source, lock=False)
        self._seen[source] = found
        return found

    def record(self, asks: Iterable[KeyRequest], *, source: str, position: str | None) -> RecordResult:
        """Record ``asks`` and that ``source`` was read up to ``position``, both or neither.

        Raises Conflict where the source has been read by somebody else since ``position(source)``, KeyLogUnavailable where
        the database does not do it (then nothing is recorded).
        """
        now_s = int(self.clock())
        given = list(asks)
        accepted = [ask for ask in given if EARLIEST_S <= ask.at_s <= now_s + FUTURE_S and ask.count > 0]
        key_rows, asked_rows = _rows(accepted, source)
        if position is not None and source not in self._seen:
            self.position(source)

        def work(connection: Connection) -> bool:
            if position is not None and not self._advance(connection, source, position, now_s):
                return False
            _store(connection, key_rows, asked_rows)
            return True

        is_new = self.database.write(work)
        if position is not None:
            self._seen[source] = position
        rows, refused = len(asked_rows), len(given) - len(accepted)
        return RecordResult(rows, refused) if is_new else RecordResult(0, refused, is_repeated=True)

    def _advance(self, connection: Connection, source: str, position: str, now_s: int) -> bool:
        """Move the source's position; False where it stands there already."""
        stored = _stored_position(connection, source, lock=True)
        if stored == position:
            return False
        if stored != self._seen[source]:
            raise Conflict(
                "another process reads this query source",
                source=source,
                hint="Let one process mine a source, or begin again from the stored position.",
            )
        row = {
            "source_digest": digest(source),
            "source": make_storable(source, SOURCE_CHARS),
            "position": pack_position(position),
            "updated_at": now_s,
        }
        newest: Mapping[str, Callable[[Any, Any], Any]] = {
            name: lambda _old, new: new for name in ("position", "updated_at")
        }
        upsert(connection, mined, [row], newest)
        return True

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _stored_position(connection: Connection, source: str, *, lock: bool) -> str | None:
    wanted = select(mined.c.position).where(mined.c.source_digest == digest(source))
    found: str | None = connection.scalar(wanted.with_for_update() if lock else wanted)
    return None if found is None else unpack_position(found)


def _rows(asks: Iterable[KeyRequest], source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of both tables, each primary key once and in its order."""
    key_rows: dict[bytes, dict[str, Any]] = {}
    asked_rows: dict[tuple[int, bytes, bytes], dict[str, Any]] = {}
    key_digests: dict[tuple[str, KeyPath], bytes] = {}
    askers: dict[tuple[str, str], _Asker] = {}
    for ask in asks:
        named, by = (ask.raw_table, ask.key), (ask.user, ask.fingerprint)
        if named not in key_digests:
            key_digests[named] = digest(ask.raw_table, encode_members(ask.key))
        if by not in askers:
            askers[by] = _Asker.of(*by, source)
        day, key_digest, asker = day_of(ask.at_s), key_digests[named], askers[by]
        key_row = key_rows.get(key_digest)
        if key_row is None:
            key_row = key_rows[key_digest] = _key_row(key_digest, ask)
        key_row["last_day"] = max(key_row["last_day"], day)
        identity = (day, key_digest, asker.digest)
        row = asked_rows.get(identity)
        if row is None:
            asked_rows[identity] = _asked_row(identity, ask, asker)
        else:
            row["asked_count"] += ask.count
            row["first_at"] = min(row["first_at"], ask.at_s)
            row["last_at"] = max(row["last_at"], ask.at_s)
    return (
        [key_rows[each] for each in sorted(key_rows)],
        [asked_rows[each] for each in sorted(asked_rows)],
    )


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks through which query, as it is stored."""

    digest: bytes
    user: str
    source: str
    fingerprint: str

    @classmethod
    def of(cls, user: str, fingerprint: str, source: str) -> _Asker:
        # MySQL takes "ann " for "ann": spaces around a name cannot be a part of it.
        stored_user = make_storable(user.strip(), USER_CHARS)
        stored_fingerprint = make_storable(fingerprint, FINGERPRINT_CHARS)
        identity = digest(stored_user, source, stored_fingerprint)
        return cls(identity, stored_user, make_storable(source, SOURCE_CHARS), stored_fingerprint)


def _key_row(key_digest: bytes, ask: KeyRequest) -> dict[str, Any]:
    return {
        "digest": key_digest,
        "raw_table": make_storable(ask.raw_table, RAW_TABLE_CHARS),
        "path": make_storable(ask.key.text, PATH_CHARS),
        "members": encode_members(ask.key),
        "last_day": day_of(ask.at_s),
    }


def _asked_row(identity: tuple[int, bytes, bytes], ask: KeyRequest, asker: _Asker) -> dict[str, Any]:
    day, key_digest, asker_digest = identity
    return {
        "day": day,
        "key_digest": key_digest,
        "asker_digest": asker_digest,
        "user_name": asker.user,
        "source": asker.source,
        "fingerprint": asker.fingerprint,
        "asked_count": ask.count,
        "first_at": ask.at_s,
        "last_at": ask.at_s,
    }


def _store(connection: Connection, key_rows: list[dict[str, Any]], asked_rows: list[dict[str, Any]]) -> None:
    least, most = lesser(connection), greater(connection)
    for start in range(0, len(key_rows), ROWS_PER_STATEMENT):
        upsert(connection, keys, key_rows[start : start + ROWS_PER_STATEMENT], {"last_day": most})
    changes: Mapping[str, Callable[[Any, Any], Any]] = {
        "asked_count": lambda old, new: old + new,
        "first_at": least,
        "last_at": most,
    }
    for start in range(0, len(asked_rows), ROWS_PER_STATEMENT):
        upsert(connection, asked, asked_rows[start : start + ROWS_PER_STATEMENT], changes)
