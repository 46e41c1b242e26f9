"""The internal event types: the result of decoding, and the only form in which projections see events.

Four wire formats (Tideline's own records, the metastore's notification objects in two encodings, the two of
the Apiary listeners) carry the same facts under different names, and each lacks some. Projections must not
depend on the format, so a field that a format cannot fill is None and never a guess.

Names of databases and tables are in lower case (the metastore's own rule). Embedded objects stay text until
``Embedded.value`` is read, because most events of a busy source concern tables that are not replicated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.structs.objects import Database, Function, Partition, Table
    from handlers.structs.statistics import ColumnStatistics
    from state.errors import BadInput


T = TypeVar("T")

CATALOGS: Final = frozenset({None, "hive"})
"""The catalogs whose events are followed:
the metastore's default one, and None if a format or event does not name it.

The same database and table may exist in another catalog; its events must not have an effect.
"""


class Embedded(Generic[T]):
    """An object inside a message, decoded on first use.

    ``value`` raises MalformedEvent if the text is not such an object. A caller that changes the object must
    use ``copy()``. Two are equal if their texts are equal and both decode to the same struct.

    Threads may share it: the text never changes, and the decoded object is only a cache of it. If one thread
    forgets the object, or two decode at once, an equal one is decoded.
    """

    __slots__ = ("_decode", "_decode_outline", "_text", "_value")

    def __init__(
        self, text: str, decode: Callable[[str], T], decode_outline: Callable[[str], Any] | None = None
    ) -> None:
        """``decode_outline`` decodes only some fields, if that costs much less (``outline``)."""
        self._text = text
        self._decode = decode
        self._decode_outline = decode_outline
        self._value: T | None = None

    @property
    def value(self) -> T:
        """The decoded object. All callers share it and must not change it."""
        value = self._value  # read once: another thread may forget it meanwhile
        if value is None:
            self._value = value = self._decode(self._text)
        return value

    @property
    def outline(self) -> Any:
        """The fields that tell which object it is, or the object if decoded already. Raises MalformedEvent as
        ``value`` does.

        For a partition: ``PartitionOutline``. For other objects: all fields.
        """
        value = self._value
        if value is None and self._decode_outline is not None:
            return self._decode_outline(self._text)
        return self.value if value is None else value

    @property
    def text(self) -> str:
        """The text of the object in its wire format."""
        return self._text

    def copy(self) -> T:
        """Return a new object that the caller may change."""
        return self._decode(self._text)

    def forget_value(self) -> None:
        """Forget the decoded object, which takes several times the memory of the text;
        the next ``value`` decodes again.
        """
        self._value = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Embedded):
            return NotImplemented
        return self._text == other._text and self._decode == other._decode

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Embedded({self._text[:60]!r}…)" if len(self._text) > 60 else f"Embedded({self._text!r})"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One entry of a file list: ``uri#checksum#cmroot#subdir`` (reference: hive-replication.md §1.2).

    ``checksum`` and ``cm_root`` are None if the source's file system has no checksums or the change manager
    is off. ``subdir`` is the ACID directory below the table's or partition's root, "" for plain tables.
    """

    uri: str
    checksum: str | None = None
    cm_root: str | None = None
    subdir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The header of every event: its position in the log, its type, and the names that it concerns."""

    event_id: int
    part: int = 0
    parts: int = 1
    time_s: int
    kind: str
    """The metastore's own name of the event type, such as ``ADD_PARTITION``; ``WRITE`` for the relay's write
    parts."""
    catalog: str | None = None
    db: str | None = None
    table: str | None = None
    unpacked_bytes: int = field(default=0, compare=False, repr=False)
    """Length of the decompressed message, which can be a thousand times that of the record."""

    def forget_values(self) -> None:
        """Forget the decoded objects.
        An event stays in memory until its batch is applied, and longer if several projections share it.
        """


def _forget(*objects: Embedded[Any] | None) -> None:
    for each in objects:
        if each is not None:
            each.forget_value()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCreated(Event):
    """CREATE_DATABASE."""

    database: Embedded[Database] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAltered(Event):
    """ALTER_DATABASE."""

    before: Embedded[Database]
    after: Embedded[Database]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDropped(Event):
    """DROP_DATABASE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCreated(Event):
    """CREATE_TABLE;
    ``files`` are those of a plain CTAS (files of a transactional one come with the commit).
    """

    after: Embedded[Table]
    files: tuple[SourceFile, ...] = ()

    def forget_values(self) -> None:
        """Forget the decoded table."""
        _forget(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAltered(Event):
    """ALTER_TABLE;
    also a rename (``before`` and ``after`` differ in name) and the truncation of an unpartitioned table.
    """

    before: Embedded[Table]
    after: Embedded[Table]
    truncate: bool | None = None
    write_id: int | None = None

    def forget_values(self) -> None:
        """Forget the decoded tables."""
        _forget(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDropped(Event):
    """DROP_TABLE."""

    before: Embedded[Table] | None = None

    def forget_values(self) -> None:
        """Forget the decoded table."""
        _forget(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded(Event):
    """ADD_PARTITION; ``files`` maps a partition's name to its files (plain tables only)."""

    owner: Embedded[Table] | None
    partitions: tuple[Embedded[Partition], ...]
    files: Mapping[str, tuple[SourceFile, ...]] = field(default_factory=dict)

    def forget_values(self) -> None:
        """Forget the decoded table and partitions."""
        _forget(self.owner, *self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAltered(Event):
    """ALTER_PARTITION and ALTER_PARTITIONS.

    ``before`` is set only for ALTER_PARTITION; different values in ``before`` and ``after`` are a rename.
    """

    owner: Embedded[Table] | None
    after: tuple[Embedded[Partition], ...]
    before: Embedded[Partition] | None = None
    truncate: bool | None = None
    write_id: int | None = None

    def forget_values(self) -> None:
        """Forget the decoded table and partitions."""
        _forget(self.owner, self.before, *self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsDropped(Event):
    """DROP_PARTITION; each item maps the partition columns to their values, in the table's order."""

    owner: Embedded[Table] | None
    specs: tuple[Mapping[str, str], ...]

    def forget_values(self) -> None:
        """Forget the decoded table."""
        _forget(self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted(Event):
    """INSERT into a plain or external table;
    ``replace`` is None if the format does not distinguish overwrite from append.
    """

    owner: Embedded[Table] | None
    partition: Embedded[Partition] | None
    spec: Mapping[str, str] | None
    replace: bool | None
    files: tuple[SourceFile, ...]

    def forget_values(self) -> None:
        """Forget the decoded table and partition."""
        _forget(self.owner, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnsOpened(Event):
    """OPEN_TXN; ``first`` to ``last`` inclusive; empty if ``last`` is one less than ``first``."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIdsAllocated(Event):
    """ALLOC_WRITE_ID_EVENT; pairs of (transaction id, write id), sorted by write id."""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWritten(Event):
    """A write event: the files that one committed transaction put into one table or partition.

    ``partition_name`` is "" for an unpartitioned table. ``raw_files`` are the entries as the source wrote
    them, because ``commit_txn`` on the target takes them in that form; the objects are TJSON text for the
    same reason.
    """

    txn_id: int
    write_id: int
    partition_name: str
    files: tuple[SourceFile, ...]
    raw_files: tuple[str, ...]
    owner_text: str | None = None
    partition_text: str | None = None
    listed: bool = False
    """Whether the relay has found the files, so that they may be gone although nothing is wrong."""
    incomplete: str | None = None
    """Why the write may have other files; the table must then be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnCommitted(Event):
    """COMMIT_TXN; parallel tuples as the source reported them (4.1 and later), one pair per written table."""

    txn_id: int
    write_ids: tuple[int, ...] = ()
    databases: tuple[str, ...] = ()
    enriched: bool = False
    """True if the write parts of this transaction came before this event in the topic."""
    listed: bool = False
    """True if the write parts include the partitions that Hive left out of its write events: the relay
    listed their files.
    """
    incomplete: str | None = None
    """Why the relay does not know the writes of the transaction, of a source that does not report them
    either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnAborted(Event):
    """ABORT_TXN."""

    txn_id: int
    databases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsUpdated(Event):
    """UPDATE_TBL_COL_STAT_EVENT and UPDATE_PART_COL_STAT_EVENT
    (then with the partition's name in the statistics).

    ``parameters`` are those of the table or partition that change with it: ``COLUMN_STATS_ACCURATE``.
    """

    owner: Embedded[Table] | None
    statistics: Embedded[ColumnStatistics]
    write_id: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    def forget_values(self) -> None:
        """Forget the decoded table and statistics."""
        _forget(self.owner, self.statistics)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsDeleted(Event):
    """DELETE_TBL_COL_STAT_EVENT and DELETE_PART_COL_STAT_EVENT."""

    column: str | None
    partition_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintsAdded(Event):
    """ADD_PRIMARYKEY, ADD_FOREIGNKEY, ADD_UNIQUECONSTRAINT,
    ADD_NOTNULLCONSTRAINT, ADD_DEFAULTCONSTRAINT, ADD_CHECKCONSTRAINT.

    ``texts`` are the constraints as TJSON; ``kind`` determines their struct.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintDropped(Event):
    """DROP_CONSTRAINT."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCreated(Event):
    """CREATE_FUNCTION."""

    function: Embedded[Function]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDropped(Event):
    """DROP_FUNCTION."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionCommitted(Event):
    """COMMIT_COMPACTION_EVENT."""

    txn_id: int
    partition_name: str | None = None
    compaction_type: str | None = None
    """``MINOR``, ``MAJOR`` or ``REBALANCE``, as Hive writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhandled(Event):
    """An event type without an effect here, or an unknown one (``is_known`` False);
    it is counted and skipped.
    """

    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLost(Event):
    """Tideline's own record of a gap:
    the events from ``first_event_id`` to its own id were lost before they were relayed.

    The consumer reports it as a gap to every projection that has not applied these events, so projections
    never receive it.
    """

    first_event_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable(Event):
    """A record whose position in the log is known but whose content is unusable.

    The consumer has already written it to the dead-letter topic. A projection quarantines the table that it
    names, or stops if it names none (unless configured otherwise).
    """

    error: BadInput
