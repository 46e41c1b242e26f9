"""The directories of external tables: which ones to copy, and the list of them in a file.

Directories are normalised URIs without a slash at the end. A directory below another one is part of its copy
and never listed separately; otherwise each copy of a partitioned table would list its partitions twice.

The list has the format of Hive's ``_external_tables_info`` (reference: hive-replication.md §5):
``TABLE,BASE64(URI)``, one line for each table, and one more for each directory of partitions outside of the
table's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from state.errors import BadInput


@dataclass(frozen=True, slots=True)
class TableDirectories:
    """The source directories of one external table."""

    table: str
    root: str
    outside: tuple[str, ...] = ()
    """Directories of partitions that are not below ``root``, except those that are below another one."""
    is_replaced: bool = False
    """Whether statements replace files in ``root`` without an event; if so, its copy must have no others."""

    @staticmethod
    def of(
        table: str, root: str, partitions: Iterable[str], *, is_replaced: bool = False
    ) -> TableDirectories:
        """Return the directories of a table at ``root`` with partitions in these directories."""
        outside = (directory for directory in partitions if not is_below(directory, root))
        return TableDirectories(table, root, select_outermost(outside), is_replaced)

    @property
    def all(self) -> tuple[str, ...]:
        """The table's own directory and those outside of it."""
        return (self.root, *self.outside)


def is_below(directory: str, root: str) -> bool:
    """Whether ``directory`` is ``root`` or lies below it."""
    return _closed(directory).startswith(_closed(root))


def select_outermost(directories: Iterable[str]) -> tuple[str, ...]:
    """Return the directories that are not below another one, each once and sorted."""
    outermost: list[str] = []
    for directory in sorted(set(directories), key=_closed):
        if not outermost or not is_below(directory, outermost[-1]):
            outermost.append(directory)
    return tuple(outermost)


def select_replaced(tables: Iterable[TableDirectories]) -> frozenset[str]:
    """Return the directories of tables with ``is_replaced``, except directories that contain a directory of a
    table without it.
    """
    replaced: set[str] = set()
    above: set[str] = set()
    for table in tables:
        if table.is_replaced:
            replaced.add(table.root)
        else:
            above |= {
                root[:end] for root in (_closed(each) for each in table.all) for end in _find_ends(root)
            }
    return frozenset(replaced - above)


def _find_ends(root: str) -> Iterator[int]:
    return (position for position, character in enumerate(root) if character == "/")


def find_collisions(targets: Mapping[str, str]) -> frozenset[str]:
    """Return the directories of the source whose files would collide with another one's on the target.

    ``targets`` maps each directory, none of which is below another one, to its directory on the target. The
    mapping drops scheme and host, so directories of two file systems can get the same one.
    """
    colliding: set[str] = set()
    above: list[str] = []
    for source in sorted(targets, key=lambda each: (_closed(targets[each]), each)):
        while above and not is_below(targets[source], targets[above[-1]]):
            above.pop()
        if above:
            colliding |= {source, above[-1]}
        above.append(source)
    return frozenset(colliding)


def format_directories(tables: Iterable[TableDirectories]) -> str:
    """Return the list of directories as text, sorted by table."""
    lines = (
        f"{each.table},{base64.b64encode(directory.encode()).decode()}\n"
        for each in sorted(tables, key=lambda each: each.table)
        for directory in each.all
    )
    return "".join(lines)


def parse_directories(text: str) -> Iterator[tuple[str, str]]:
    """Yield (table, directory) for each line, including lists that Hive wrote; raise BadInput for any other
    line.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        table, comma, encoded = line.partition(",")
        try:
            directory = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise BadInput("a line is not TABLE,BASE64", line=number, text=line[:200]) from error
        if not table or not comma or not directory:
            raise BadInput("a line is not TABLE,BASE64", line=number, text=line[:200])
        yield table, directory


def _closed(directory: str) -> str:
    return directory if directory.endswith("/") else directory + "/"
