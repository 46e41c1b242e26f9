"""The one tree of errors.

Every failure that Tideline can name is an instance of ``TidelineError``: a stable ``code`` (log field, metric label, word to
search the docs for), a plain message, the context as named values, and a hint on what to do. The branches say what the
caller has to decide, which is why they exist at all::

    TidelineError
    ├── ConfigError                 the user has to change a setting; nothing was started
    ├── Transient                   the same call may succeed later: retry with backoff
    │   ├── MetastoreUnavailable
    │   ├── KafkaUnavailable
    │   ├── FilesUnavailable
    │   ├── HBaseUnavailable
    │   ├── KeyLogUnavailable
    │   ├── DriverEnded             a flat table's Spark driver ended, or told nothing for too long
    │   ├── ServerFault             the metastore answered "internal error": retried a few times, then the event's table is at fault
    │   └── AmbiguousCall           sent, but no answer came: it may have been applied
    ├── Refused                     the other side understood and said no: repeating changes nothing
    │   ├── NotFound
    │   │   └── Uncoverable         a time range was to be covered completely and partitions are missing
    │   ├── AlreadyExists
    │   ├── Conflict                somebody else changed it since it was read: read it anew and decide again
    │   ├── InvalidRequest
    │   ├── TxnNotOpen
    │   └── Unsupported             this generation of the other side has no such call
    ├── BadInput                    what came in cannot be used: dead letter, and its table is quarantined
    │   ├── MalformedEvent
    │   ├── BadPartitionValue   a text that is no partition of its update period
    │   ├── BadFilter           a partition filter that the metastore's language or the table's columns do not allow
    │   ├── PeriodMismatch      partitions of two update periods where there can be one
    │   ├── LimitExceeded
    │   └── UnsafePath
    └── Inconsistent                what Tideline knows and what it sees disagree: stop (or quarantine) and tell
        ├── GapDetected
        ├── StateCorrupt
        ├── StateLocked
        ├── TimelineInconsistent  stored timeline properties contradict themselves: rebuild from the partitions
        ├── TableAltered            a flat table is not as Tideline wrote it: somebody altered it by hand
        ├── TopicReplaced           a topic was created anew under its name, or lost records that were read already
        ├── TargetDiverged
        └── FileLost                neither the source nor the change manager has the file with the recorded checksum

A new kind of failure gets a class here, a line in docs/ERRORS.md (a test compares the two) and a test.
"""

from __future__ import annotations

from typing import ClassVar


class TidelineError(Exception):
    """Root of the tree.

    ``context`` holds the values that the message is about (``key``, ``value``, ``reason``, ``event_id``, ``table``, …);
    logs carry them as fields. ``hint`` tells the reader what to do next and defaults to the class' own.
    """

    code: ClassVar[str] = "tideline"
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.context = context

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.context.items())
        text = f"[{self.code}] {self.message}"
        if values:
            text += f" ({values})"
        return f"{text}. {self.hint}" if self.hint else text


class ConfigError(TidelineError):
    """A setting is missing, unknown or out of range."""

    code = "config"
    default_hint = "Run 'tideline config check' to see every problem at once."


class Transient(TidelineError):
    """The same call may succeed later."""

    code = "transient"


class MetastoreUnavailable(Transient):
    """No metastore of the list could be reached, or the connection broke before the call was sent."""

    code = "metastore-unavailable"
    default_hint = "Check that the metastore runs and that its address in the configuration is right."


class KafkaUnavailable(Transient):
    """The broker could not be reached or did not answer in time."""

    code = "kafka-unavailable"
    default_hint = "Check kafka.bootstrap and that the broker runs."


class FilesUnavailable(Transient):
    """A file system did not answer, or refused for a reason that may pass."""

    code = "files-unavailable"


class HBaseUnavailable(Transient):
    """HBase's Thrift gateway could not be reached, or HBase behind it did not do what was asked."""

    code = "hbase-unavailable"
    default_hint = "Check that HBase and its Thrift gateway run and that the address is right."


class KeyLogUnavailable(Transient):
    """The key log's database could not be reached, or did not do what was asked."""

    code = "keylog-unavailable"
    default_hint = "Check that the database runs, and keylog.url, its user and its password."


class DriverEnded(Transient):
    """A flat table's Spark driver ended without being asked to, or told nothing for too long."""

    code = "driver-ended"
    default_hint = "It is started again and goes on where it was; its own last words tell why it ended."


class MinerEnded(Transient):
    """The process that reads people's queries ended without being asked to."""

    code = "miner-ended"
    default_hint = "It is started again and goes on where it was; its own last words tell why it ended."


class ServerFault(Transient):
    """The metastore answered with an internal error and closed the connection; nothing was applied."""

    code = "server-fault"
    default_hint = "The metastore's own log holds the cause."


class AmbiguousCall(Transient):
    """The call was sent but no answer came: it may or may not have been applied."""

    code = "ambiguous-call"
    default_hint = "Repeat it only if it is idempotent, or ask for the state first."


class Refused(TidelineError):
    """The other side understood the request and said no."""

    code = "refused"


class NotFound(Refused):
    """The object is not there."""

    code = "not-found"


class Uncoverable(NotFound):
    """A time range was to be covered completely, and partitions are missing."""

    code = "uncoverable"
    default_hint = "Wait for the missing partitions, allow finer update periods, or ask without strict mode."


class AlreadyExists(Refused):
    """The object is there already."""

    code = "already-exists"


class Conflict(Refused):
    """It was changed by somebody else since it was read; nothing was done."""

    code = "conflict"
    default_hint = "Read it anew and decide again."


class InvalidRequest(Refused):
    """The other side calls the request invalid."""

    code = "invalid-request"


class TxnNotOpen(Refused):
    """The transaction is unknown, committed or aborted."""

    code = "txn-not-open"


class Unsupported(Refused):
    """This generation of the other side has no such call or format."""

    code = "unsupported"


class BadInput(TidelineError):
    """What came in cannot be used."""

    code = "bad-input"


class MalformedEvent(BadInput):
    """An event cannot be decoded."""

    code = "malformed-event"
    default_hint = "The record is in the dead-letter topic: 'tideline dlq show'."


class BadPartitionValue(BadInput):
    """A text is no partition value of the update period that it was read as."""

    code = "bad-partition-value"
    default_hint = "Values are read strictly: writing the parsed value again must give the same text."


class BadFilter(BadInput):
    """A partition filter cannot be read, or asks what the table's columns do not allow."""

    code = "bad-filter"
    default_hint = "The position counts characters from 0; the language is described in docs/PARTITIONS.md."


class PeriodMismatch(BadInput):
    """Partitions of two update periods meet where only one can be."""

    code = "period-mismatch"
    default_hint = (
        "Every update period has a timeline of its own: convert the value first, or use that timeline."
    )


class LimitExceeded(BadInput):
    """An input is larger than its limit."""

    code = "limit-exceeded"
    default_hint = "Raise the limit in the configuration if the input is legitimate."


class UnsafePath(BadInput):
    """A path would leave the place that it has to stay in."""

    code = "unsafe-path"


class Inconsistent(TidelineError):
    """What Tideline knows and what it sees disagree."""

    code = "inconsistent"


class GapDetected(Inconsistent):
    """Event ids are missing and cannot be read any more."""

    code = "gap"
    default_hint = "The notification log was cleaned before it was read: bootstrap the policy anew, and raise the log's time to live."


class StateCorrupt(Inconsistent):
    """The stored state breaks one of its invariants or was written by a newer version."""

    code = "state-corrupt"


class StateLocked(Inconsistent):
    """Another process uses the same state."""

    code = "state-locked"
    default_hint = "Only one daemon may use a state directory at a time."


class TimelineInconsistent(Inconsistent):
    """Stored timeline properties are incomplete or contradict themselves."""

    code = "timeline-inconsistent"
    default_hint = "The timeline is rebuilt from the table's partitions: 'tideline timeline rebuild'."


class TableAltered(Inconsistent):
    """A flat table's columns, comments or parameters are not as Tideline wrote them."""

    code = "table-altered"
    default_hint = (
        "Flat tables are Tideline's to alter: undo the change, or begin a new table beside this one."
    )


class TopicReplaced(Inconsistent):
    """A topic of raw events is not the one that was read so far: created anew under its name, or cut back."""

    code = "topic-replaced"
    default_hint = (
        "Old offsets mean nothing in a new topic: begin with a new checkpoint; the table's rows stay."
    )


class TargetDiverged(Inconsistent):
    """The target answered something that only a change from outside can explain."""

    code = "target-diverged"


class FileLost(Inconsistent):
    """Neither the source nor the change manager has the file with the recorded checksum."""

    code = "file-lost"
    default_hint = (
        "Raise the change manager's retention (metastore.repl.cm.retain), then bootstrap the table again."
    )
