"""Masks secrets in everything that is about to be written: by their text, and by the name of the field that holds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterable

    from structlog.typing import EventDict, WrappedLogger


MASK: Final = "***"
SECRET_CHARACTERS_MIN: Final = 4
"""Shorter texts are not masked: they would match ordinary words."""

DEPTH_MAX: Final = 8

_SECRET_WORDS: Final = re.compile(r"password|passphrase|secret|token|private[._]key|credential|authorization")
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def names_secret(key: str) -> bool:
    """Return whether a field of this name holds a secret."""
    return _SECRET_WORDS.search(key.lower()) is not None


class Redactor:
    """A structlog processor; also usable on plain values."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({s for s in secrets if len(s) >= SECRET_CHARACTERS_MIN}, key=len, reverse=True)
        # As they stand, and as a quoting library would show them.
        forms = [form for secret in known for form in (secret, repr(secret)[1:-1])]
        self._known = re.compile("|".join(map(re.escape, forms))) if forms else None

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Return ``event`` with secrets masked."""
        return {key: MASK if names_secret(key) else self.clean(value) for key, value in event.items()}

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Return ``value`` with secrets masked, within mappings and lists too; other objects are turned into text."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict) and depth < DEPTH_MAX:
            return {
                key: MASK if names_secret(str(key)) else self.clean(inner, depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset) and depth < DEPTH_MAX:
            return [self.clean(inner, depth + 1) for inner in value]
        return self.text(str(value))

    def text(self, text: str) -> str:
        """Return ``text`` with every known secret and the password of every address masked."""
        masked = _IN_ADDRESS.sub(MASK, text)
        return self._known.sub(MASK, masked) if self._known else masked
