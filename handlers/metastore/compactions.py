"""Compactions: asked for, and watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.metastore.calls import Call
from handlers.metastore.session import Session
from handlers.structs.transactions import (
    CompactionRequest,
    CompactionResponse,
    CompactionType,
    ShowCompactRequest,
    ShowCompactResponse,
    ShowCompactResponseElement,
)


if TYPE_CHECKING:
    from collections.abc import Mapping


_COMPACT: Final = Call("compact2", {"rqst": CompactionRequest}, CompactionResponse, (), changes=True)
_SHOW: Final = Call("show_compact", {"rqst": ShowCompactRequest}, ShowCompactResponse, (), changes=False)


class CompactionCalls(Session):
    """What concerns compaction of transactional tables."""

    def compact(
        self,
        db: str,
        table: str,
        *,
        partition_name: str | None = None,
        kind: CompactionType = CompactionType.MAJOR,
        properties: Mapping[str, str] | None = None,
    ) -> CompactionResponse:
        """Ask for a compaction; not ``accepted`` where one is queued or running already."""
        request = CompactionRequest(
            dbname=db,
            tablename=table,
            partitionname=partition_name,
            type=kind,
            runas=self.options.user,
            properties=None if properties is None else dict(properties),
        )
        return self._invoke(_COMPACT, request)

    def show_compactions(self) -> list[ShowCompactResponseElement]:
        """Return queued, running and past compactions."""
        return self._invoke(_SHOW, ShowCompactRequest()).compacts
