"""The error tree of Tideline.

Every failure that Tideline can name is an instance of ``TidelineError``: a stable ``code`` (log field, metric
label, search term for the docs), a plain message, the context as named values, and a hint with the next step.
The branches exist because each of them demands a different decision from the caller:

* ``ConfigError``: a setting must be changed; nothing was started.
* ``Transient``: the same call may succeed later. Retry with backoff.
* ``Refused``: the other side understood and refused. Repeating changes nothing.
* ``BadInput``: the input is unusable. Write a dead letter and quarantine its table.
* ``Inconsistent``: the recorded and the observed state differ. Stop, or quarantine, and report.

A new kind of failure needs a class here, a line in docs/ERRORS.md (a test compares the two) and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from state.value_text import plain_text, value_text


class _Redaction:
    """Removes secrets from the texts of new errors."""

    @staticmethod
    def redact(value: Any) -> Any:
        """Return ``value`` unchanged, because no secrets are known yet."""
        return value


def use_redaction(redact: Callable[[Any], Any]) -> None:
    """Pass the message and the context of every error through ``redact`` from now on.

    The text of an error reaches logs, answers, dead letters and the target's metastore. It may come from
    another system, which repeats its input.
    """
    _Redaction.redact = staticmethod(redact)  # type: ignore[method-assign,assignment]


class TidelineError(Exception):
    """Root of the error tree.

    ``context`` holds the values that the message is about (``key``, ``value``, ``reason``, ``event_id``,
    ``table`` and others); logs carry them as fields. ``hint`` names the next step; it defaults to the hint of
    the class.
    """

    code: ClassVar[str] = "tideline"
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, **context: object) -> None:
        self.message: str = _Redaction.redact(plain_text(message))
        super().__init__(self.message)
        self.hint = self.default_hint if hint is None else hint
        self.context: dict[str, object] = _Redaction.redact(context)

    def __str__(self) -> str:
        values = self.context_text()
        text = f"[{self.code}] {self.message}"
        if values:
            text += f" ({values})"
        return f"{text}. {self.hint}" if self.hint else text

    def context_text(self) -> str:
        """Return the values that the message is about; leaves out those that are None."""
        return ", ".join(
            f"{name}={value_text(value)}" for name, value in self.context.items() if value is not None
        )


class ConfigError(TidelineError):
    """A setting is missing, unknown or out of range."""

    code = "config"
    default_hint = "Run 'tideline config check' to list all problems at once."


class Transient(TidelineError):
    """The same call may succeed later."""

    code = "transient"


class MetastoreUnavailable(Transient):
    """No configured metastore accepted a connection, or the connection broke before the call was sent."""

    code = "metastore-unavailable"
    default_hint = "Check that the metastore runs and that its address in the configuration is correct."


class LoginFailed(MetastoreUnavailable):
    """The login at a metastore failed:
    a wrong password, no valid ticket, an unknown principal, or different clocks.

    A new ticket, keytab or clock may resolve it, so it is retried; one call makes only one attempt, because
    servers lock accounts.
    """

    code = "login-failed"
    default_hint = "Check the settings below 'auth' of the source or target."


class KafkaUnavailable(Transient):
    """The broker refused the connection or did not answer in time."""

    code = "kafka-unavailable"
    default_hint = "Check kafka.bootstrap and that the broker runs."


class FilesUnavailable(Transient):
    """A file system did not answer, or refused for a reason that may be temporary."""

    code = "files-unavailable"


class HBaseUnavailable(Transient):
    """HBase or its Thrift gateway did not answer, or failed to execute the request."""

    code = "hbase-unavailable"
    default_hint = "Check that HBase and its Thrift gateway run and that the address is correct."


class KeyLogUnavailable(Transient):
    """The database of the key log did not answer, or failed to execute the request."""

    code = "keylog-unavailable"
    default_hint = "Check that the database runs, and check keylog.url, its user and its password."


class DriverEnded(Transient):
    """The Spark driver of a flat table or of a copy job ended unexpectedly,
    or reported no progress for too long.
    """

    code = "driver-ended"
    default_hint = "The daemon restarts it where it stopped. The end of its output shows why it exited."


class MinerEnded(Transient):
    """The process that mines users' queries ended unexpectedly."""

    code = "miner-ended"
    default_hint = "The daemon restarts it where it stopped. The end of its output shows why it exited."


class EndpointEnded(Transient):
    """The process of a metastore endpoint ended unexpectedly, or reported nothing for too long."""

    code = "endpoint-ended"
    default_hint = "The daemon restarts it. The end of its output shows why it exited."


class ServerFault(Transient):
    """The metastore reported an internal error, or a failure of its database or file system. It applied
    nothing.
    """

    code = "server-fault"
    default_hint = "Look for the cause in the metastore's log."


class TooManyFailures(Transient):
    """Several tables failed in a short time. The cause is probably not in the tables, so Tideline quarantines
    no further ones.
    """

    code = "too-many-failures"
    default_hint = (
        "Find the common cause in the reasons of the quarantined tables; replay continues once it is gone."
    )


class TransactionsOpen(Transient):
    """Transactions that wrote into a table before its load did not end in time."""

    code = "transactions-open"
    default_hint = (
        "Wait until they end, abort them at the source, or set bootstrap.abort_open_transactions to true."
    )


class SourceBusy(Transient):
    """A table changed at the source during every attempt to load it."""

    code = "source-busy"
    default_hint = (
        "Tideline repeats the load. If it never succeeds, load the table when it changes less often."
    )


class Interrupted(Transient):
    """The work stopped before it was complete; the next run continues it."""

    code = "interrupted"


class Overloaded(Transient):
    """The daemon answers as many requests as it may at once. You may repeat the request."""

    code = "overloaded"


class NotYet(Transient):
    """A condition was not true in the time that the request waited for it."""

    code = "not-yet"


class AmbiguousCall(Transient):
    """The call was sent, but no answer arrived. The server may have applied it."""

    code = "ambiguous-call"
    default_hint = "Repeat the call only if it is idempotent; otherwise read the current state first."


class Refused(TidelineError):
    """The other system understood the request and refused it."""

    code = "refused"


class Unauthenticated(Refused):
    """The request has no token or certificate that the daemon knows."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The role of the client does not include the request, or the request names another host."""

    code = "forbidden"


class NotFound(Refused):
    """The object does not exist."""

    code = "not-found"


class Uncoverable(NotFound):
    """A complete cover was requested, but partitions are missing in the time range."""

    code = "uncoverable"
    default_hint = (
        "Wait for the missing partitions, allow finer update periods, or repeat the query without strict "
        "mode."
    )


class AlreadyExists(Refused):
    """The object already exists."""

    code = "already-exists"


class Conflict(Refused):
    """Another process changed the object after it was read. Tideline wrote nothing."""

    code = "conflict"
    default_hint = "Read the object again, then decide again."


class InvalidRequest(Refused):
    """The other system considers the request invalid."""

    code = "invalid-request"


class TxnNotOpen(Refused):
    """The transaction is unknown, committed or aborted."""

    code = "txn-not-open"


class IncompleteReplica(Refused):
    """Tables of a replica lack rows of its point, and a promotion would lose them."""

    code = "incomplete-replica"
    default_hint = (
        "Release or load the tables that the message names, and promote again. If the source is lost, "
        "'tideline promote POLICY --force' promotes the database with these tables as they are."
    )


class Unsupported(Refused):
    """This version of the other system does not support the call or format."""

    code = "unsupported"


class BadInput(TidelineError):
    """Tideline cannot use the input."""

    code = "bad-input"


class MalformedEvent(BadInput):
    """Tideline cannot decode an event."""

    code = "malformed-event"
    default_hint = "The record is in the dead-letter topic: run 'tideline dlq show'."


class ForeignRecord(BadInput):
    """A record that the source of its topic cannot have published."""

    code = "foreign-record"
    default_hint = "Tideline skipped it. Find out who else writes to the topic: run 'tideline dlq show'."


class BadPartitionValue(BadInput):
    """A text is not a partition value of its update period."""

    code = "bad-partition-value"
    default_hint = (
        "Write the value exactly as Lens does: formatting the parsed value must give the same text."
    )


class BadFilter(BadInput):
    """A partition filter does not parse, or the table's columns do not allow it."""

    code = "bad-filter"
    default_hint = "See docs/PARTITIONS.md for the filter language. The position counts characters from 0."


class PeriodMismatch(BadInput):
    """Partitions of two update periods were combined, but only one period is allowed."""

    code = "period-mismatch"
    default_hint = (
        "Convert the value to the period of this timeline, or use the timeline of the value's own period."
    )


class LimitExceeded(BadInput):
    """An input exceeds its limit."""

    code = "limit-exceeded"
    default_hint = (
        "Reduce the input. Most limits are fixed; docs/CONFIG.md lists those that a setting changes."
    )


class FilterTooExpensive(LimitExceeded):
    """A partition filter has too many conditions for the number of keys in its ranges."""

    code = "filter-too-expensive"
    default_hint = "Limit the first partition column to fewer values, or send several smaller filters."


class UnsafePath(BadInput):
    """A path points outside the permitted directories."""

    code = "unsafe-path"


class Inconsistent(TidelineError):
    """The recorded state and the observed state differ."""

    code = "inconsistent"


class GapDetected(Inconsistent):
    """Event ids are missing, and Tideline can no longer read them."""

    code = "gap"
    default_hint = (
        "Skip the lost events: first 'tideline gap source SOURCE' for the relay, then 'tideline gap policy "
        "POLICY' for each of its policies. To avoid this, raise the log's time to live."
    )


class StateCorrupt(Inconsistent):
    """The stored state violates an invariant, or a newer version wrote it."""

    code = "state-corrupt"


class StateLocked(Inconsistent):
    """Another process uses the same state."""

    code = "state-locked"
    default_hint = "Run only one daemon for each state directory."


class TimelineInconsistent(Inconsistent):
    """Stored timeline properties are incomplete or contradictory."""

    code = "timeline-inconsistent"
    default_hint = "Rebuild the timeline from the table's partitions: run 'tideline timeline rebuild'."


class FlatTableAltered(Inconsistent):
    """Another process changed columns, comments or parameters of a flat table."""

    code = "table-altered"
    default_hint = "Only Tideline may alter a flat table: undo the change, or start a new table next to it."


class TopicReplaced(Inconsistent):
    """The topic of raw events is a new one of the same name, or lost its beginning."""

    code = "topic-replaced"
    default_hint = (
        "Start with a new checkpoint, because old offsets are invalid in a new topic; the table's rows stay."
    )


class TargetDiverged(Inconsistent):
    """The target is in a state that only an external change can explain."""

    code = "target-diverged"


class Fenced(Inconsistent):
    """Another instance of Tideline took over the target database. This one must no longer write there."""

    code = "fenced"
    default_hint = (
        "Only one instance may replicate into a database: stop one of the two. "
        "If this one is to continue, run 'tideline resume POLICY' for it."
    )


class FileLost(Inconsistent):
    """Neither the source nor the change manager has the file with the recorded checksum."""

    code = "file-lost"
    default_hint = (
        "Release the table, which loads it again: 'tideline release POLICY TABLE'. To avoid this, raise the "
        "change manager's retention (metastore.repl.cm.retain)."
    )


class UnloggedFilesGone(FileLost):
    """Files of a write event disappeared (dropped, renamed or compacted) before their listing."""

    code = "unlogged-files-gone"
    default_hint = (
        "Tideline loads the table again. To avoid this, let the relay list partitions "
        "(relay.list_partitions)."
    )
