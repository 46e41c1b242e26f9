"""Raw tables, query texts and an in-memory key log, for tests of mining."""

from __future__ import annotations

from collections.abc import Iterable

from streaming.keylog.records import KeyRequest
from streaming.mining.miner import Miner
from streaming.mining.model import (
    CustomFunction,
    Form,
    MinedKeys,
    MiningRules,
    Parser,
    QueryText,
    RawTable,
    Style,
)


EVENTS = RawTable(
    "default.raw_events", "json", location="file:///data/raw_events", views=frozenset({"default.raw_view"})
)
CLICKS = RawTable("web.clicks", "doc")
FUNCTIONS = (CustomFunction("event_parser"), CustomFunction("my_path", Style.JSON_PATH, document_argument=1))
RULES = MiningRules((EVENTS, CLICKS), FUNCTIONS)


def query(
    text: str,
    *,
    user: str = "ann",
    at_s: int = 1_700_000_000,
    form: Form = Form.SQL,
    database: str | None = None,
) -> QueryText:
    return QueryText(text, user, at_s, "test", "", form, database)


def mined(text: str, *, form: Form = Form.SQL, database: str | None = None) -> MinedKeys:
    return Miner(RULES).mine(query(text, form=form, database=database))[1]


def named(found: MinedKeys) -> list[str]:
    """Keys as ``$.a.b``; those of the second raw table behind its name. Sorted."""
    return sorted(key.text if table is EVENTS else f"{table.name} {key.text}" for table, key in found.keys)


def reasons(found: MinedKeys) -> dict[str, int]:
    return {str(reason): count for reason, count in sorted(found.unresolved.items())}


class MemorySink:
    """A key log that keeps requests and positions in lists; if ``failing`` is set, the next ``record`` raises
    it."""

    def __init__(self) -> None:
        self.positions: dict[str, str] = {}
        self.requests: list[KeyRequest] = []
        self.batches = 0
        self.failing: Exception | None = None

    def position(self, source: str) -> str | None:
        return self.positions.get(source)

    def record(self, requests: Iterable[KeyRequest], *, source: str, position: str | None) -> None:
        if self.failing is not None:
            error, self.failing = self.failing, None
            raise error
        self.requests += requests
        self.batches += 1
        if position is not None:
            self.positions[source] = position

    def keys(self) -> list[str]:
        return sorted({each.key.text for each in self.requests})


__all__ = ["CLICKS", "EVENTS", "RULES", "Form", "MemorySink", "Parser", "mined", "named", "query", "reasons"]
