"""Limits the number of values in a JSON text before it is parsed.

A parser turns two bytes (``[]``) into a hundred, so a text within the limits of its length can still exhaust
the memory of the process: 80 KB of gzip have become 2 GB of lists. The text is therefore scanned first.

The scan counts commas and opening brackets, which takes a fraction of the time of parsing. Those inside
strings count too, so the number is an upper bound, which is enough for most texts. Above a limit, the strings
are removed and the rest is counted again. Text that is not JSON may be counted as less than it contains; a
parser refuses it.
"""

from __future__ import annotations

from typing import Final

from state.errors import LimitExceeded


VALUES_MAX: Final = 500_000
"""Most values of one text. The largest events have one for each file: 64 MiB hold about 400,000 of them."""
CONTAINERS_MAX: Final = 250_000
"""Most objects and lists, which take much more memory than other values."""


def check_size(text: bytes | str) -> None:
    """Raise LimitExceeded if the JSON ``text`` has too many values, objects or lists to be parsed."""
    if len(text) <= CONTAINERS_MAX or not _excess(text):
        return
    outside = _without_strings(text.encode(errors="replace") if isinstance(text, str) else text)
    if outside is None:
        raise _too_many("values", VALUES_MAX)
    if excess := _excess(outside):
        raise _too_many(*excess)


def _excess(text: bytes | str) -> tuple[str, int] | None:
    """Return which limit ``text`` exceeds, if its strings count as well."""
    if isinstance(text, str):
        containers, commas = text.count("{") + text.count("["), text.count(",")
    else:
        containers, commas = text.count(b"{") + text.count(b"["), text.count(b",")
    if containers > CONTAINERS_MAX:
        return "containers", CONTAINERS_MAX
    if containers + commas > VALUES_MAX:
        return "values", VALUES_MAX
    return None


def _without_strings(text: bytes) -> bytes | None:
    """Return the text between the strings; None if there are more strings than values are allowed."""
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 4 * VALUES_MAX + 4:  # a value and its key have two quotation marks each
        return None
    return b"".join(bare.split(b'"')[::2])


def _too_many(what: str, most: int) -> LimitExceeded:
    return LimitExceeded(f"the JSON has too many {what}", limit=f"json_{what}", limit_items=most)
