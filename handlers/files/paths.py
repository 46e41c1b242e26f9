"""Locations of files, and the check that one location stays below another.

Every producer of the event topic can name the files that Tideline reads and the directories that it writes.
Every text from an event therefore becomes a ``Location`` here or an UnsafePath error; nothing else in this
package accepts text as a path.

The rules follow Hadoop's ``Path``: the text is never percent-decoded. Hive itself writes ``%3A`` into
directory names for a partition value with a colon, so ``%`` is an ordinary character, and ``p=%2F..%2Fx`` is
one name (``FileUtils.escapePathName``). No client decodes a path: neither Hadoop's ``Path``, nor the file
systems of this package. Only its own text makes a name unsafe: ``..``, a separator, or a character that no
writer of tables uses in names. U+0085 or U+2028 are legal, and Hive does not escape them. The file system
limits the length of a name: 255 bytes in HDFS, 1024 for a whole key in S3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn

from state.errors import UnsafePath


CM_NAME_UNITS_MAX: Final = 255
PATH_BYTES_MAX: Final = 4096
SHOWN_CHARACTERS_MAX: Final = 200

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*)(/.*)?|(/(?!/).*))", re.DOTALL)
# Controls that Hive escapes in names of partitions, and lone surrogates (no UTF-8 form).
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9._@:\[\]-]{0,255}")
_ORDINARY: Final = re.compile(
    r"([a-z][a-z0-9+.-]*):(?://([A-Za-z0-9._:-]{0,255})(?=/))?((?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+)+)"
)
"""A normal URI whose names have neither special characters nor ``%``; nearly all are, and one match takes a
seventh of the time."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A normalised location on a file system:
    scheme, authority and absolute path. Equal locations compare equal.
    """

    scheme: str
    authority: str
    path: str
    """Starts with ``/``; no empty, ``.`` or ``..`` components; no slash at the end unless it is the root."""

    def __str__(self) -> str:
        """The URI as Hadoop writes it: ``file:/a``, ``hdfs://namenode/a``."""
        if self.authority:
            return f"{self.scheme}://{self.authority}{self.path}"
        return f"{self.scheme}:{self.path}"

    @property
    def name(self) -> str:
        """The last component; "" for the root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory that contains it; the root is its own parent."""
        return Location(self.scheme, self.authority, self.path.rpartition("/")[0] or "/")

    def contains(self, other: Location) -> bool:
        """Return whether ``other`` is this location or lies below it."""
        if (self.scheme, self.authority) != (other.scheme, other.authority):
            return False
        return self.path in {"/", other.path} or other.path.startswith(self.path + "/")

    def child(self, name: str) -> Location:
        """Return the location ``name`` directly below this one."""
        _require_safe_name(name, whole=name)
        return self._below([name])

    def join(self, relative: str) -> Location:
        """Return the location ``relative`` below this one.

        ``relative`` is a plain relative path such as ``delta_0000001_0000001_0000/bucket_00000``. Raises
        UnsafePath if it is empty, absolute or a URI, or has a component that could lead outside.
        """
        return self._below(_components(relative, whole=relative))

    def _below(self, names: list[str]) -> Location:
        base = "" if self.path == "/" else self.path
        path = f"{base}/{'/'.join(names)}"
        if len(path.encode()) > PATH_BYTES_MAX:
            _refuse("the path is too long", path)
        joined = Location(self.scheme, self.authority, path)
        assert self.contains(joined), (self, joined)
        assert joined != self, self
        return joined


def parse_location(uri: str) -> Location:
    """Return the location that ``uri`` names:
    ``file:/a``, ``file:///a``, ``hdfs://nn:8020/a``, ``s3a://bucket/a`` or ``/a``.

    It drops repeated and trailing slashes, as Hadoop does. Raises UnsafePath for anything but an absolute,
    normal path of printable characters.
    """
    ordinary = _ORDINARY.fullmatch(uri)
    if ordinary is not None and len(ordinary[3]) <= PATH_BYTES_MAX:
        scheme, authority, path = ordinary[1], ordinary[2] or "", ordinary[3]
        if not authority or scheme != "file":
            return Location(scheme, authority, path)
    return parse_any_location(uri)


def parse_any_location(uri: str) -> Location:
    """Do the same as ``parse_location``, but check each name separately."""
    if uri.startswith("/"):
        if uri.startswith("//"):
            _refuse("a path starts with // but names no scheme", uri)
        scheme, authority, path = "file", "", uri
    else:
        match = _URI.fullmatch(uri)
        if match is None:
            _refuse("not an absolute path or a URI with one", uri)
        scheme, authority, path = match[1].lower(), match[2] or "", match[3] or match[4] or "/"
    if not _AUTHORITY.fullmatch(authority):
        _refuse("the authority of the URI is malformed", uri)
    if scheme == "file":
        if authority.lower() not in {"", "localhost"}:
            _refuse("a file: URI names a host", uri)
        authority = ""
    names = [name for name in path.split("/") if name]
    root = Location(scheme, authority, "/")
    # SLF001: same class, same module
    return root._below(_check_names(names, whole=uri)) if names else root  # noqa: SLF001


def to_target_subdir(subdir: str, base_suffix: str = "") -> str:
    """Return the directory on the target for ``subdir``,
    the ACID part of a source file's path ("" for plain tables).

    The visibility suffix of compacted directories (``base_0000005_v0000012``) disappears, because it names a
    transaction of the source's compactor (reference: hive-replication.md §3.5). A base gets ``base_suffix``
    instead. A level that starts like an ACID directory must be one; other levels (``HIVE_UNION_SUBDIR_1``)
    need only be safe names. Raises UnsafePath.
    """
    if not subdir:
        return ""
    return "/".join(_target_level(name, subdir, base_suffix) for name in _components(subdir, whole=subdir))


_ACID_LIKE: Final = re.compile(r"(base|delta|delete_delta)_")
_ACID: Final = re.compile(
    r"(?P<stem>base_-?\d{1,19}|(?:delete_)?delta_(?P<first>\d{1,19})_(?P<last>\d{1,19})(?:_\d{1,10})?)(?:_v\d{1,19})?",
    re.ASCII,
)


def _target_level(name: str, subdir: str, base_suffix: str) -> str:
    if not _ACID_LIKE.match(name):
        return name
    match = _ACID.fullmatch(name)
    if match is None:
        _refuse("malformed name of an ACID directory", subdir)
    if match["first"] is not None and int(match["first"]) > int(match["last"]):
        _refuse("the write ids of an ACID directory are in the wrong order", subdir)
    return match["stem"] + (base_suffix if match["first"] is None else "")


def build_cm_path(cm_root: Location, name: str, checksum: str) -> Location:
    """Return where the change manager keeps ``name`` with ``checksum``: ``<cmroot>/<name>_<checksum>``.

    It cuts a name of more than 255 characters to 254, one less than would fit, as in Hive
    (ReplChangeManager.getCMPath). Hive counts Java characters, that is, UTF-16 units. Raises UnsafePath if
    the result is not a safe name.
    """
    units = f"{name}_{checksum}".encode("utf-16-le", "surrogatepass")
    if len(units) // 2 > CM_NAME_UNITS_MAX:
        units = units[: 2 * (CM_NAME_UNITS_MAX - 1)]
    return cm_root.child(units.decode("utf-16-le", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class AllowedRoots:
    """The directories with readable source files. Files elsewhere may not be read; if there are no roots,
    no file may be read.
    """

    roots: tuple[Location, ...] = ()

    @staticmethod
    def of(uris: Iterable[str]) -> AllowedRoots:
        """Build the list from URIs of the configuration."""
        return AllowedRoots(tuple(sorted({parse_location(uri) for uri in uris})))

    def require(self, location: Location) -> Location:
        """Return ``location`` if it lies strictly below one of the roots; raise UnsafePath otherwise."""
        if location in self.roots:
            raise self._outside(location)
        return self.require_directory(location)

    def require_directory(self, location: Location) -> Location:
        """Return ``location`` if it is one of the roots or lies below one; raise UnsafePath otherwise."""
        if any(root.contains(location) for root in self.roots):
            return location
        raise self._outside(location)

    def _outside(self, location: Location) -> UnsafePath:
        return UnsafePath(
            "the file lies outside the directories that may be read",
            path=printable(str(location)),
            roots=[str(root) for root in self.roots],
            hint="If the path is legitimate, add its warehouse or change manager directory to the "
            "source's read_roots.",
        )


def printable(text: str) -> str:
    """Return ``text`` in a form for messages:
    at most 200 characters, control characters and surrogates escaped.
    """
    if len(text) <= SHOWN_CHARACTERS_MAX and text.isprintable():
        return text
    cut = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def is_safe_name(name: str) -> bool:
    """Return whether ``name`` can be a component of a location."""
    try:
        _require_safe_name(name, whole=name)
    except UnsafePath:
        return False
    return True


def _components(relative: str, whole: str) -> list[str]:
    if not relative or relative.startswith("/"):
        _refuse("a relative path is empty or absolute", whole)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", relative):
        _refuse("a relative path is a URI", whole)
    return _check_names(relative.rstrip("/").split("/"), whole)


def _check_names(names: list[str], whole: str) -> list[str]:
    for name in names:
        _require_safe_name(name, whole)
    return names


def _require_safe_name(name: str, whole: str) -> None:
    if not name or "/" in name:
        _refuse("a component of the path is empty", whole)
    if "\\" in name:
        _refuse("the path contains a backslash", whole)
    if _CONTROL.search(name):
        _refuse("the path contains control characters", whole)
    if name in {".", ".."}:
        _refuse("the path contains . or .. components", whole)


def _refuse(reason: str, text: str) -> NoReturn:
    raise UnsafePath(reason, path=printable(text))
