"""From a notification's type and message to an event: the metastore's words, shared by two formats.

Tideline's own records and the metastore's notification objects differ in the envelope only; the message is the same. The
table of types is complete for Hive 2.3 to 4.2: what is not in it is a newer metastore's, and is counted and passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.decoding import catalog_events as catalog
from handlers.decoding import transaction_events as transactions
from handlers.decoding.fields import Fields
from handlers.events import Event, Unhandled
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.decoding.limits import Limits
    from handlers.decoding.messages import JsonObject
    from handlers.decoding.origin import Origin


_BUILDERS: Final[Mapping[str, Callable[[dict[str, Any], Fields], Event]]] = {
    "CREATE_DATABASE": catalog.database_created,
    "ALTER_DATABASE": catalog.database_altered,
    "DROP_DATABASE": catalog.database_dropped,
    "CREATE_TABLE": catalog.table_created,
    "ALTER_TABLE": catalog.table_altered,
    "DROP_TABLE": catalog.table_dropped,
    "ADD_PARTITION": catalog.partitions_added,
    "ALTER_PARTITION": catalog.partition_altered,
    "ALTER_PARTITIONS": catalog.partitions_altered,
    "DROP_PARTITION": catalog.partitions_dropped,
    "INSERT": catalog.inserted,
    "OPEN_TXN": transactions.txns_opened,
    "ALLOC_WRITE_ID_EVENT": transactions.write_ids_allocated,
    "WRITE": transactions.files_written,
    "ACID_WRITE_EVENT": transactions.files_written,
    "COMMIT_TXN": transactions.txn_committed,
    "ABORT_TXN": transactions.txn_aborted,
    "COMMIT_COMPACTION_EVENT": transactions.compaction_committed,
    "UPDATE_TBL_COL_STAT_EVENT": catalog.statistics_updated,
    "UPDATE_PART_COL_STAT_EVENT": catalog.statistics_updated,
    "DELETE_TBL_COL_STAT_EVENT": catalog.statistics_deleted,
    "DELETE_PART_COL_STAT_EVENT": catalog.statistics_deleted,
    **dict.fromkeys(catalog.CONSTRAINT_KINDS, catalog.constraints_added),
    "ADD_FOREIGNKEY": catalog.foreign_keys_added,
    "DROP_CONSTRAINT": catalog.constraint_dropped,
}
_NOTHING_TO_DO: Final = frozenset(
    {
        *("CREATE_FUNCTION", "DROP_FUNCTION", "RELOAD", "CONFIG_CHANGE_EVENT", "CONFIGCHANGE"),
        *(f"{verb}_CATALOG" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_ISCHEMA" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_SCHEMA_VERSION" for verb in ("ADD", "ALTER", "DROP")),
        *(f"{verb}_DATACONNECTOR" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_INDEX" for verb in ("CREATE", "ALTER", "DROP")),
    }
)
_SHORT: Final = {kind.removesuffix("_EVENT"): kind for kind in _BUILDERS if kind.endswith("_EVENT")}


def canonical_kind(kind: str) -> str:
    """Return the metastore's own name of a type; some publishers leave the ``_EVENT`` of some types out."""
    return _SHORT.get(kind, kind)


def needs_message(kind: str) -> bool:
    """Tell whether the message of this (canonical) type is looked at at all."""
    return kind in _BUILDERS


def event_of(origin: Origin, message: JsonObject, limits: Limits) -> Event:
    """Build the event; one whose message cannot be used is Undecodable."""
    build = _BUILDERS.get(origin.kind)
    if build is None:
        return unhandled(origin)
    try:
        return build(origin.fields(), Fields(message, limits))
    except BadInput as error:
        return origin.undecodable(error)


def unhandled(origin: Origin) -> Unhandled:
    """Return the event for a type that has no effect here."""
    return Unhandled(**origin.fields(), known=origin.kind in _NOTHING_TO_DO)
