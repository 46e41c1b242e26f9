"""The query files of a first try: the raw table that they read, its keys in each file, and the unreadable
parts.

A child process with limits reads the texts, as for a query log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from state.columns.paths import KeyPath
from state.columns.requested_keys import looks_generated
from state.columns.rules import FlatRules
from state.errors import ConfigError
from streaming.mining.model import RawTable


TABLES_MAX: Final = 100
_NAME: Final = r"(?:`[^`]+`|[a-z_]\w*)"
_TABLE: Final = re.compile(rf"\b(?:from|join)\s+({_NAME}(?:\s*\.\s*{_NAME})?)", re.IGNORECASE)
_COLUMN: Final = re.compile(
    rf"\b(?:get_json_object|json_tuple|json_extract(?:_scalar)?|json_value|from_json)\s*\(\s*(?:{_NAME}\s*\.\s*)?({_NAME})",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A file of queries."""

    path: str
    keys: tuple[KeyPath, ...]
    problem: str
    """Why the file, or a use of the JSON column in it, gives no keys; empty if there is no such use."""


def find_queries(paths: Sequence[Path]) -> list[Path]:
    """Return the given files and all files in the given directories. Raises ConfigError if there are none."""
    files: list[Path] = []
    for path in paths:
        files += sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    if paths and not files:
        raise ConfigError(
            "the directories of queries contain no file",
            directories=[str(path) for path in paths][:20],
            hint="Without --queries the most filled keys become columns.",
        )
    return files


def guess_raw_table(queries: Sequence[Path]) -> RawTable | None:
    """Return the raw table that the queries read; None without queries. Raises ConfigError if they read no
    key.
    """
    if not queries:
        return None
    raw = guess_table([path.read_text(errors="replace") for path in queries])
    if raw is None:
        raise ConfigError(
            "the queries read no key of a JSON column",
            files=[str(path) for path in queries][:20],
            hint="Tideline finds keys in calls such as get_json_object(json, '$.a.b'). Without --queries the "
            "most filled keys become columns.",
        )
    return raw


def guess_table(texts: Sequence[str]) -> RawTable | None:
    """Return the table whose keys the queries request most; None if no query requests a key of JSON.

    The column is the first argument of a JSON function, and the table stands behind FROM or JOIN. A guess is
    good enough for finding the keys: the miner then resolves names exactly, and a table that is not raw has
    no keys. Names without a database count as tables of the database that the other names use most.
    """
    from streaming.mining.miner import Question
    from streaming.mining.model import Form, MiningRules
    from streaming.mining.text_worker import TextWorker

    columns = Counter(_clean(name) for text in texts for name in _COLUMN.findall(text))
    named = [_split(name) for text in texts for name in _TABLE.findall(text)]
    databases = Counter(database for database, _ in named if database)
    default_database = databases.most_common(1)[0][0] if databases else "default"
    names = Counter(f"{database or default_database}.{name}" for database, name in named)
    requests: Counter[RawTable] = Counter()
    for column, _ in columns.most_common(3):
        tables = [table for name, _ in names.most_common(TABLES_MAX) if (table := _make(name, column))]
        if tables:
            rules = MiningRules(raw_tables=tuple(tables), default_database=default_database)
            with closing(TextWorker(rules)) as worker:
                for mined in worker.read_all([Question(text, Form.SQL, default_database) for text in texts]):
                    requests.update(table for table, _ in mined.keys)
    return requests.most_common(1)[0][0] if requests else None


def _make(name: str, column: str) -> RawTable | None:
    from streaming.mining.model import RawTable

    try:
        return RawTable(name, column)
    except ConfigError:
        return None


def _clean(name: str) -> str:
    return name.strip().strip("`").lower()


def _split(name: str) -> tuple[str, str]:
    *database, table = (_clean(part) for part in re.split(r"\s*\.\s*", name))
    return "".join(database), table


def read_queries(queries: Sequence[Path], raw: RawTable) -> list[QueryFile]:
    """Return the keys of ``raw`` that each file reads, and the unreadable parts."""
    from streaming.mining.miner import Miner
    from streaming.mining.model import MiningRules, QueryText
    from streaming.mining.text_worker import TextWorker

    rules = MiningRules((raw,), default_database=raw.name.partition(".")[0])
    texts = [QueryText(path.read_text(errors="replace"), "", 0, "") for path in queries]
    with closing(TextWorker(rules)) as worker:
        answers = Miner(rules, worker).mine_all(texts)
    files = []
    for path, (_, mined) in zip(queries, answers, strict=True):
        problem = "" if mined.keys else f"reads no key of {raw.json_column} in {raw.name}"
        if mined.unresolved:
            uses = ", ".join(f"{count} {reason.value}" for reason, count in sorted(mined.unresolved.items()))
            problem = f"uses of the JSON column whose keys are unknown: {uses}"
        files.append(QueryFile(str(path), tuple(key for _, key in mined.keys), problem))
    return files


def find_members(files: Sequence[QueryFile], filled: Collection[KeyPath]) -> frozenset[KeyPath]:
    """Return the filled keys that some file reads although another one reads an object around them as a
    whole.

    In production the object takes the place of its members unless far fewer users request it. Here all files
    belong to one user, and one file must not take away the columns of the others. Members with generated
    names, and too many of them, collapse as ever.
    """
    requested = {key for file in files for key in file.keys}
    members: set[KeyPath] = set()
    for whole in requested:
        below = {key for key in requested if key != whole and key.members[: whole.depth] == whole.members}
        names = {key.members[whole.depth] for key in below}
        if len(names) <= FlatRules().children_max and not looks_generated(names):
            members |= below
    return frozenset(members.intersection(filled))
