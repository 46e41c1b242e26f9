"""Decodes write events that a metastore returned, as if the relay had put them in front of their commit.

The topic holds them only if the relay wrote it and the metastore answered. Replay fetches those of all other commits itself.
The fields and limits are those of the relay's ``WRITE`` records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.decoding.fields import Fields
from handlers.decoding.header import WRITE_KIND, EventHeader
from handlers.decoding.limits import DEFAULT_LIMITS, Limits
from handlers.decoding.records.commit_parts import build_write_message
from handlers.decoding.transaction_events import build_files_written


if TYPE_CHECKING:
    from handlers.events import FilesWritten, TxnCommitted
    from handlers.structs.notifications import WriteEventInfo


def decode_write_event(
    commit: TxnCommitted, info: WriteEventInfo, limits: Limits = DEFAULT_LIMITS
) -> FilesWritten:
    """Return one write event of ``commit``, under the commit's event id; raise BadInput if it cannot be used."""
    header = EventHeader(commit.event_id, commit.part, commit.parts, time_s=commit.time_s, kind=WRITE_KIND)
    return build_files_written(header.fields(), Fields(build_write_message(commit.txn_id, info), limits))
