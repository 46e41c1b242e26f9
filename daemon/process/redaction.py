"""Redaction: defines what a secret is, for all output of the process.

Texts from other systems repeat their input: a metastore repeats its client's password, a library the URL with
a signature in its query. Tideline masks secrets by three kinds of rules:

- the texts of the configuration's secrets, in the forms in which libraries print them;
- names of settings that hold secrets: those of librdkafka, PyArrow, Hadoop and Spark, and their common parts.
  A name that ends like a reference (``.file``, ``.location``, ``.provider``) holds no secret;
- forms of secrets: passwords in addresses, in query strings and in JAAS texts, private keys, bearer tokens.

Errors of Tideline's tree redact themselves when created (``state.errors.use_redaction``), so that every text
made of them is clean: answers, commands, dead letters, and parameters on the target. Logs and the status,
which also contain errors of libraries, go through redaction as a whole.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, quote_plus

from state.errors import use_redaction


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from structlog.typing import EventDict, WrappedLogger


T = TypeVar("T")

MASK: Final = "***"
SECRET_CHARACTERS_MIN: Final = 4
"""Shorter secrets are not masked, because they would match ordinary words."""
LINE_CHARACTERS_MIN: Final = 16
"""Lines of a secret that are at least this long are also masked one by one."""
DEPTH_MAX: Final = 8
CACHED_CHARACTERS_MAX: Final = 500
CACHED_MAX: Final = 16_384
"""Number of cached masked texts: the status of 500 policies has several thousand."""
_PLAIN: Final = frozenset({type(None), bool, int, float})
"""Types of values without texts, which are frequent in the status."""

_SENSITIVE: Final = re.compile(
    r"passw(?:or)?d|passphrase|(?:^|[._-])(?:pwd|pass|sas|sig)(?:$|[._-])|secret|token|credential|authorization"
    r"|(?<!oauth)bearer|cookie|jaas|signature|private[._-]?key|account[._-]?key|shared[._-]?access[._-]?key|api[._-]?key"
    r"|session[._-]?key|encryption[._-]?key$|keystore[._-]?key(?:$|[._-])|key[._-]?pem|key[._-]?pass"
    r"|oauthbearer[._-]config|connection[._-]?string"
)
_REFERENCE: Final = re.compile(
    r"(?:file|[._-](?:location|path|providers?|class|type|types|method|mechanisms?|algorithm|url|uri|endpoint"
    r"|enabled?|use_ip|id|name|names|ms|s|seconds|interval|service))$"
    r"|secretkeyref\.|kubernetes\.(?:driver|executor)\.secrets\."
)
"""Names of settings that refer to a secret, or to its origin."""

_WORDS: Final = (
    r"passw(?:or)?d|passphrase|secret|token|credential|signature|jaas\.config|private[._-]?key"
    r"|account[._-]?key|shared[._-]?access[._-]?key|api[._-]?key|session[._-]?key"
)
_NAME: Final = rf"(?:[\w.-]{{0,80}}(?:{_WORDS})[\w.-]{{0,40}}|\b(?:pwd|sig|sas))"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL
)
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/\s:@]+:[^/\s]+(?=@)")
_ASSIGNED: Final = re.compile(
    rf"({_NAME}\s?=\s?)(\\?\"[^\"\\]*\\?\"|{_QUOTED}|(?!\*\*\*)[^\s,;&\"')}}\]]+)", re.IGNORECASE
)
_IN_MAPPING: Final = re.compile(rf"([\"']{_NAME}[\"']\s?:\s?)({_QUOTED})", re.IGNORECASE)
_HEADER: Final = re.compile(r"(authorization[\"']?\s?[:=]\s?[\"']?(?:\w+\s)?)[^\s\"',;]+", re.IGNORECASE)
_BEARER: Final = re.compile(r"(\bBearer\s)[\w.~+/-]{16,}=*", re.IGNORECASE)
_FORMS: Final = (
    (_PRIVATE_KEY, MASK),
    (_IN_ADDRESS, MASK),
    (_HEADER, rf"\1{MASK}"),
    (_BEARER, rf"\1{MASK}"),
    (_ASSIGNED, rf"\1{MASK}"),
    (_IN_MAPPING, rf"\1{MASK}"),
)
_HINTS: Final = re.compile(r"[=@]|-----BEGIN|bearer|authorization|[\"']\s?:", re.IGNORECASE)
"""Texts of which every form contains one. Most texts contain none, and one search for these takes a fraction
of the time of all forms.
"""


def names_secret(key: str) -> bool:
    """Return whether a field or setting of this name holds a secret."""
    lower = key.lower()
    return _SENSITIVE.search(lower) is not None and _REFERENCE.search(lower) is None


def holds_secret(text: str) -> bool:
    """Return whether a text contains a secret in one of its known forms, such as a password in an address."""
    return mask_forms(text) != text


def mask_forms(text: str) -> str:
    """Mask everything in ``text`` that has the form of a secret."""
    if _HINTS.search(text) is None:
        return text
    for form, masked in _FORMS:
        text = form.sub(masked, text)
    return text


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass' fields; none for other types."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


class Redactor:
    """Masks secrets in texts and values; also a processor of structlog."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {
            secret for each in secrets for secret in _parts(each) if len(secret) >= SECRET_CHARACTERS_MIN
        }
        forms = {form for secret in known for form in _printed_forms(secret)}
        ordered = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._cached = lru_cache(maxsize=CACHED_MAX)(self._mask)

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Return ``event`` with secrets masked."""
        return {key: MASK if names_secret(key) else self.clean(value) for key, value in event.items()}

    def clean(self, value: Any, depth: int = 0) -> Any:
        """Return ``value`` with secrets masked, including inside mappings and lists. Other objects become
        text.
        """
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

    def texts(self, value: T) -> T:
        """Return ``value`` with secrets masked in all texts inside it.

        It ignores the names of fields, and leaves objects of other types as they are.
        """
        masked: Any = self._texts(value)
        return masked  # type: ignore[no-any-return]

    def _texts(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is str:
            return self.text(value)
        if kind is tuple or kind is list:
            return kind(map(self._texts, value))
        if kind is dict:
            return {key: self._texts(inner) for key, inner in value.items()}
        names = _field_names(kind)  # type: ignore[arg-type]  # a class is hashable
        return self._record(value, names) if names else value

    def _record(self, value: Any, names: Sequence[str]) -> Any:
        changed = {}
        for name in names:
            inner = getattr(value, name)
            masked = self._texts(inner)
            if masked is not inner and masked != inner:
                changed[name] = masked
        return _replaced(value, changed) if changed else value

    def text(self, text: str) -> str:
        """Mask every known secret in ``text``, and everything that has the form of a secret."""
        return self._cached(text) if len(text) <= CACHED_CHARACTERS_MAX else self._mask(text)

    def _mask(self, text: str) -> str:
        known = self._known.sub(MASK, text) if self._known else text
        return mask_forms(known)


def _replaced(value: Any, changed: dict[str, Any]) -> Any:
    """Return a copy of a frozen dataclass with other fields, without running its checks again."""
    copied = object.__new__(type(value))
    for field in fields(value):
        object.__setattr__(copied, field.name, changed.get(field.name, getattr(value, field.name)))
    return copied


def _parts(secret: str) -> Iterator[str]:
    """Yield the secret and, if it has several lines, each long line."""
    yield secret
    lines = secret.split("\n")
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= LINE_CHARACTERS_MIN)


def _printed_forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a library may print a secret."""
    yield secret
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield quote(secret, safe="", errors="replace")
    yield quote_plus(secret, errors="replace")
    yield base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode().rstrip("=")


class _Process:
    """The redactor of this process."""

    redactor: Redactor = Redactor()
    secrets: frozenset[str] = frozenset()


def use_secrets(secrets: Iterable[str]) -> None:
    """Mask these texts from now on, in everything that passes ``redactor`` and in every new error of this
    process.
    """
    _Process.secrets = frozenset(secrets)
    _Process.redactor = Redactor(_Process.secrets)
    use_redaction(_Process.redactor.texts)


def add_secret(secret: str) -> None:
    """Mask this text from now on, in addition to the known secrets."""
    if secret not in _Process.secrets:
        use_secrets((*_Process.secrets, secret))


def redactor() -> Redactor:
    """Return the redactor of this process, which knows the secrets of the loaded configuration."""
    return _Process.redactor


def redact(text: str) -> str:
    """Return ``text`` without the secrets that this process knows."""
    return _Process.redactor.text(text)
