"""The key log: records requested keys together with the position up to which their source was read.

One row stands for a key of a raw table that a user requested on one day, through a query text (its
fingerprint) found in a source. A query that runs every minute is one row a day with a count. The log
therefore grows with the number of different queries, not with the number of runs.

The position of the source changes in the same transaction, so recording a batch again is harmless. A batch
whose position is already stored has no effect. The log refuses a batch that does not continue from the
position that this process last read or wrote, because two miners of one source would count everything twice.
If a source has no position (standard input), a repetition increases counts, but not users and days, which
determine the ranks of keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from sqlalchemy import Connection, select

from state.columns.paths import KeyPath
from state.errors import Conflict
from state.pieces import in_pieces
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
    digest,
    key_table,
    position_table,
    request_table,
)


ROWS_PER_STATEMENT: Final = 2_000


@dataclass(frozen=True, slots=True)
class RecordResult:
    """The result of recording a batch."""

    rows: int = 0
    """Rows added or increased."""
    refused: int = 0
    """Requests left out because of an impossible time: before 2000, or in the future."""
    is_repeated: bool = False
    """The batch was recorded before and had no effect."""


class KeyLog:
    """An open key log; a context manager. Thread-safe, and several processes may use one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        self.clock = clock
        self._seen: dict[str, str | None] = {}

    @classmethod
    def open(
        cls, address: str, *, password: str | None = None, clock: Callable[[], float] = time.time
    ) -> Self:
        """Open the database at the SQLAlchemy URL ``address`` and migrate its schema to the newest version.

        Raises ConfigError for an invalid address, KeyLogUnavailable if the database does not answer, and
        StateCorrupt if the schema is newer than this program.
        """
        database = Database(address, password)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database, clock)

    def position(self, source: str) -> str | None:
        """Return the position up to which ``source`` was read, None if it was never read. ``record``
        continues from there.
        """
        with self.database.read() as connection:
            position = _stored_position(connection, source, lock=False)
        self._seen[source] = position
        return position

    def record(self, requests: Iterable[KeyRequest], *, source: str, position: str | None) -> RecordResult:
        """Record ``requests`` and the position up to which ``source`` was read, in one transaction.

        Raises Conflict if another process has read the source since ``position(source)``, and
        KeyLogUnavailable if the database fails, in which case nothing is recorded.
        """
        now_s = int(self.clock())
        key_requests = list(requests)
        accepted = [
            each for each in key_requests if EARLIEST_S <= each.at_s <= now_s + FUTURE_S and each.count > 0
        ]
        key_rows, request_rows = _rows(accepted, source)
        if position is not None and source not in self._seen:
            self.position(source)

        def work(connection: Connection) -> bool:
            if position is not None and not self._advance(connection, source, position, now_s):
                return False
            _store(connection, key_rows, request_rows)
            return True

        is_new = self.database.write(work)
        if position is not None:
            self._seen[source] = position
        rows, refused = len(request_rows), len(key_requests) - len(accepted)
        return RecordResult(rows, refused) if is_new else RecordResult(0, refused, is_repeated=True)

    def _advance(self, connection: Connection, source: str, position: str, now_s: int) -> bool:
        """Advance the source's position; return False if the position is already stored."""
        stored = _stored_position(connection, source, lock=True)
        if stored == position:
            return False
        if stored != self._seen[source]:
            raise Conflict(
                "another process reads this query source",
                source=source,
                hint="Mine each source in one process only, or start again from the stored position.",
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
        upsert(connection, position_table, [row], newest)
        return True

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stored_position(connection: Connection, source: str, *, lock: bool) -> str | None:
    query = select(position_table.c.position).where(position_table.c.source_digest == digest(source))
    position: str | None = connection.scalar(query.with_for_update() if lock else query)
    return None if position is None else unpack_position(position)


def _rows(requests: Iterable[KeyRequest], source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of both tables, each primary key once, in the order of the primary keys."""
    key_rows: dict[bytes, dict[str, Any]] = {}
    request_rows: dict[tuple[int, bytes, bytes], dict[str, Any]] = {}
    key_digests: dict[tuple[str, KeyPath], bytes] = {}
    requesters: dict[tuple[str, str], _Requester] = {}
    for each in requests:
        named, by = (each.raw_table, each.key), (each.user, each.fingerprint)
        if named not in key_digests:
            key_digests[named] = digest(each.raw_table, encode_members(each.key))
        if by not in requesters:
            requesters[by] = _Requester.of(*by, source)
        day, key_digest, requester = day_of(each.at_s), key_digests[named], requesters[by]
        key_row = key_rows.get(key_digest)
        if key_row is None:
            key_row = key_rows[key_digest] = _key_row(key_digest, each)
        key_row["last_day"] = max(key_row["last_day"], day)
        identity = (day, key_digest, requester.digest)
        row = request_rows.get(identity)
        if row is None:
            request_rows[identity] = _request_row(identity, each, requester)
        else:
            row["run_count"] += each.count
            row["first_at"] = min(row["first_at"], each.at_s)
            row["last_at"] = max(row["last_at"], each.at_s)
    return (
        [key_rows[each] for each in sorted(key_rows)],
        [request_rows[each] for each in sorted(request_rows)],
    )


@dataclass(frozen=True, slots=True)
class _Requester:
    """A user and the query through which the user requests keys, in stored form."""

    digest: bytes
    user: str
    source: str
    fingerprint: str

    @classmethod
    def of(cls, user: str, fingerprint: str, source: str) -> _Requester:
        # MySQL treats "ann " and "ann" as equal, so every database drops spaces around a name.
        stored_user = make_storable(user.strip(), USER_CHARS)
        stored_fingerprint = make_storable(fingerprint, FINGERPRINT_CHARS)
        identity = digest(stored_user, source, stored_fingerprint)
        return cls(identity, stored_user, make_storable(source, SOURCE_CHARS), stored_fingerprint)


def _key_row(key_digest: bytes, request: KeyRequest) -> dict[str, Any]:
    return {
        "digest": key_digest,
        "raw_table": make_storable(request.raw_table, RAW_TABLE_CHARS),
        "path": make_storable(request.key.text, PATH_CHARS),
        "members": encode_members(request.key),
        "last_day": day_of(request.at_s),
    }


def _request_row(
    identity: tuple[int, bytes, bytes], request: KeyRequest, requester: _Requester
) -> dict[str, Any]:
    day, key_digest, requester_digest = identity
    return {
        "day": day,
        "key_digest": key_digest,
        "requester_digest": requester_digest,
        "user_name": requester.user,
        "source": requester.source,
        "fingerprint": requester.fingerprint,
        "run_count": request.count,
        "first_at": request.at_s,
        "last_at": request.at_s,
    }


def _store(
    connection: Connection, key_rows: list[dict[str, Any]], request_rows: list[dict[str, Any]]
) -> None:
    least, most = lesser(connection), greater(connection)
    for piece in in_pieces(key_rows, ROWS_PER_STATEMENT):
        upsert(connection, key_table, piece, {"last_day": most})
    changes: Mapping[str, Callable[[Any, Any], Any]] = {
        "run_count": lambda old, new: old + new,
        "first_at": least,
        "last_at": most,
    }
    for piece in in_pieces(request_rows, ROWS_PER_STATEMENT):
        upsert(connection, request_table, piece, changes)
