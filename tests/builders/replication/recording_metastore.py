"""A metastore that records its calls and gives prepared answers, for tests of what is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handlers.metastore.calls import V4_2, HiveVersion


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@dataclass
class RecordingMetastore:
    """``answers`` maps the names of calls to values, to exceptions to raise, or to functions of the
    arguments."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[Recorded] = field(default_factory=list)
    hive_version: HiveVersion = V4_2

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(Recorded(name, arguments, options))
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return call

    # ARG002: the signature of the real metastore
    def clone(self, *, guard: Callable[[], None] | None = None) -> RecordingMetastore:  # noqa: ARG002
        """Return this object, which has no connection."""
        return self

    def names(self) -> list[str]:
        """Return the names of the calls, in order."""
        return [call.name for call in self.calls]

    def only(self, name: str) -> Recorded:
        """Return the only call of that name."""
        (call,) = [call for call in self.calls if call.name == name]
        return call
