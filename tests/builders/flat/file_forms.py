"""Forms of files with lines of raw events:
compressed, with other line ends, with unusual names, and files without a line beside them.

A form is recognized by the end of a file's name, so that what a directory holds can be read without knowing
who wrote it.
"""

from __future__ import annotations

import bz2
import gzip
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FileForm:
    """A form: the end of the names, and the content for some lines and back."""

    ending: str
    encode: Callable[[Sequence[bytes]], bytes]
    decode: Callable[[bytes], list[bytes]]
    beside: str = ""
    """The end of the name of an empty file that is written as well."""


def _join(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _split(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _gzip_members(lines: Sequence[bytes]) -> bytes:
    """Return two members, as two compressed files that were concatenated; the first one ends within a
    line."""
    content = _join(lines)
    middle = len(content) // 2
    return gzip.compress(content[:middle]) + gzip.compress(content[middle:])


def _join_windows(lines: Sequence[bytes]) -> bytes:
    """Return lines with CR LF; a line that ends with CR already would be followed by an empty one."""
    return b"".join(line.removesuffix(b"\r") + b"\r\n" for line in lines)


def _split_marked(content: bytes) -> list[bytes]:
    return _split(content.removeprefix(BOM_UTF8))


PLAIN: Final = FileForm(".json", _join, _split)
HOSTILE: Final = (
    PLAIN,
    FileForm(".json.gz", _gzip_members, lambda content: _split(gzip.decompress(content)), ".empty.json"),
    FileForm(".crlf.json", _join_windows, lambda content: content.split(b"\r\n")[:-1]),
    FileForm(".open.json", b"\n".join, _split),
    FileForm(
        ".json.bz2", lambda lines: bz2.compress(_join(lines)), lambda content: _split(bz2.decompress(content))
    ),
    FileForm(".bom.json", lambda lines: BOM_UTF8 + _join(lines), _split_marked),
    FileForm(
        ".bom.json.gz",
        lambda lines: gzip.compress(BOM_UTF8 + _join(lines)),
        lambda content: _split_marked(gzip.decompress(content)),
    ),
    FileForm(" a%20b;c=d é[1]{x}/part", _join, _split),
)


def decode_file(name: str, content: bytes) -> list[bytes]:
    """Return the lines of a file by the form that its name shows."""
    if not content:
        return []
    fitting = [form for form in HOSTILE if name.endswith(form.ending)]
    return max(fitting, key=lambda form: len(form.ending)).decode(content)
