"""A metastore client that counts its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from handlers.metastore.calls import AnyCall
from handlers.metastore.client import Metastore


R = TypeVar("R")


class CountedMetastore(Metastore):
    """A client that adds its calls, and those of its clones, to ``counts`` by name."""

    counts: Counter[str]

    @classmethod
    def connect(cls, uri: str, counts: Counter[str]) -> CountedMetastore:
        """Return a client."""
        made = cls(uri)
        made.counts = counts
        return made

    def clone(self, *, guard: Callable[[], None] | None = None) -> CountedMetastore:
        """Return another client with the same counts."""
        made = super().clone(guard=guard)
        made.counts = self.counts
        return made

    def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
        self.counts[call.name] += 1
        return super()._invoke(call, *arguments)
