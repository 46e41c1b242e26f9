"""The query files of a first try: which keys each of them reads, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.columns.requested_keys import looks_generated
from state.columns.rules import FlatRules
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from state.columns.paths import KeyPath
    from streaming.mining.model import RawTable


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A file of queries."""

    path: str
    keys: tuple[KeyPath, ...]
    problem: str
    """Why the file, or a use of the JSON column in it, gives no keys; empty if there is no such use."""


def find_queries(paths: Sequence[Path]) -> list[Path]:
    """Return the files, and all files in the directories. Raises ConfigError if there are none."""
    files: list[Path] = []
    for path in paths:
        files += sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    if paths and not files:
        raise ConfigError(
            "the directories of queries hold no file",
            directories=[str(path) for path in paths][:20],
            hint="Without --queries the most filled keys become columns.",
        )
    return files


def guess_raw_table(queries: Sequence[Path]) -> RawTable | None:
    """Return the raw table of the queries, None without queries. Raises ConfigError if they read no key."""
    from streaming.mining.raw_table_guess import guess_raw_table as guess

    if not queries:
        return None
    raw = guess([path.read_text(errors="replace") for path in queries])
    if raw is None:
        raise ConfigError(
            "the queries read no key of a JSON column",
            files=[str(path) for path in queries][:20],
            hint="Keys are found in calls such as get_json_object(json, '$.a.b'). Without --queries the most filled keys become columns.",
        )
    return raw


def read_queries(queries: Sequence[Path], raw: RawTable) -> list[QueryFile]:
    """Return the keys of ``raw`` that each file reads, and what could not be read."""
    from streaming.mining.miner import Miner
    from streaming.mining.model import MiningRules, QueryText

    miner = Miner(MiningRules((raw,), default_database=raw.name.partition(".")[0]))
    files = []
    for path in queries:
        _, mined = miner.mine(QueryText(path.read_text(errors="replace"), "", 0, ""))
        problem = "" if mined.keys else f"reads no key of {raw.json_column} in {raw.name}"
        if mined.unresolved:
            uses = ", ".join(f"{count} {reason.value}" for reason, count in sorted(mined.unresolved.items()))
            problem = f"uses of the JSON column whose keys are unknown: {uses}"
        files.append(QueryFile(str(path), tuple(key for _, key in mined.keys), problem))
    return files


def find_members(files: Sequence[QueryFile], filled: Collection[KeyPath]) -> frozenset[KeyPath]:
    """Return the filled keys that some file reads although another one reads an object around them as a whole.

    In production the object takes the place of its members unless far fewer users request it. Here all files belong to one user, and
    one file must not take away the columns of the others. Members with generated names, and too many of them, collapse as ever.
    """
    requested = {key for file in files for key in file.keys}
    members: set[KeyPath] = set()
    for whole in requested:
        below = {key for key in requested if key != whole and key.members[: whole.depth] == whole.members}
        names = {key.members[whole.depth] for key in below}
        if len(names) <= FlatRules().children_max and not looks_generated(names):
            members |= below
    return frozenset(members.intersection(filled))
