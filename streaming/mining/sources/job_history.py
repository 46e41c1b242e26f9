"""Reads the job history of MapReduce: Hive stores the query in each job's configuration file
(``hive.query.string``).

The files are untrusted input. The XML reader therefore accepts only configuration files, and refuses document
types, which excludes all entities. Newer Hive versions write the query URL-encoded, which shows in a text
without blanks. A query with several jobs appears in the file of each job under the same ``hive.query.id``,
and counts once.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus
from xml.parsers import expat  # noqa: S407 - document types, and so entities, are refused below

from handlers.files.paths import Location
from state.errors import BadInput, NotFound
from state.pieces import in_pieces
from streaming.mining.model import QueryText
from streaming.mining.sources.directory import UNREADABLE_ERRORS, Directory, DirectoryPosition
from streaming.mining.sources.source import DeadInput, QueryBatch


FILES_PER_BATCH: Final = 500
REMEMBERED: Final = 20_000
_CONF: Final = re.compile(r"(?:.*/)?[^/]*_conf\.xml")
_QUERY: Final = "hive.query.string"
_QUERY_ID: Final = "hive.query.id"
_USERS: Final = ("mapreduce.job.user.name", "user.name")
_DATABASE: Final = "hive.current.database"
_USED: Final = frozenset({_QUERY, _QUERY_ID, _DATABASE, *_USERS})
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")


def parse_properties(document: bytes) -> dict[str, str]:
    """Return the properties of a configuration file that mining needs.

    Raises BadInput for any other document.
    """
    reader = _Properties()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(document, True)  # noqa: FBT003 - expat takes no keywords
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadInput("the configuration of a job is not valid XML", reason=str(error)) from error
    return reader.found


@dataclass(slots=True)
class JobHistorySource:
    """Configuration files below a directory, such as the history server's directory ``done``."""

    name: str
    directory: Directory
    file_bytes: int = 16 * 1024 * 1024
    """A longer file is a dead input."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the queries of new files, FILES_PER_BATCH files at a time."""
        files_read = DirectoryPosition.from_json(position, self.name)
        files = [each for each in self.directory.files() if _CONF.fullmatch(each[0])]
        files_read.keep_only({name for name, _, _ in files})
        query_ids: OrderedDict[str, None] = OrderedDict()
        new = [each for each in files if files_read.entry(each[0]).size_bytes != each[2]]
        for piece in in_pieces(new, FILES_PER_BATCH):
            queries: list[QueryText] = []
            dead: list[DeadInput] = []
            for name, location, size in piece:
                try:
                    queries.extend(self._queries_of(name, location, query_ids))
                except NotFound:  # the history server has deleted it
                    continue
                except UNREADABLE_ERRORS as error:
                    dead.append(DeadInput.of(name, error))
                files_read.entry(name).size_bytes = size
            yield QueryBatch(tuple(queries), files_read.to_json(), tuple(dead))

    def _queries_of(
        self, name: str, location: Location, query_ids: OrderedDict[str, None]
    ) -> Iterator[QueryText]:
        properties = parse_properties(self.directory.read(location, self.file_bytes))
        text = properties.get(_QUERY, "")
        if not text or _is_known(properties.get(_QUERY_ID, ""), query_ids):
            return
        user = next((properties[each] for each in _USERS if properties.get(each)), "")
        at_s = self.directory.modified_s(location)
        yield QueryText(
            decode_query(text), user, at_s, self.name, name, database=properties.get(_DATABASE) or None
        )


def _is_known(query_id: str, query_ids: OrderedDict[str, None]) -> bool:
    """Whether this run has already read a job of the same query. Remembers the query."""
    if not query_id:
        return False
    is_known = query_id in query_ids
    query_ids[query_id] = None
    if len(query_ids) > REMEMBERED:
        query_ids.popitem(last=False)
    return is_known


def decode_query(text: str) -> str:
    """Undo the URL encoding of newer Hive versions. A statement that is not encoded contains blanks."""
    if any(letter.isspace() for letter in text.strip()) or not _ENCODED.search(text):
        return text
    return unquote_plus(text, errors="replace")


class _Properties:
    """Collects ``<property><name>…</name><value>…</value></property>``."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._texts: dict[str, list[str]] = {}
        self._inside = ""

    def refuse(self, *_given: Any) -> None:
        raise BadInput("the configuration of a job must not declare a document type or an entity")

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        if tag == "property":
            self._texts = {}
        self._inside = tag if tag in {"name", "value"} else ""

    def text(self, text: str) -> None:
        if self._inside:
            self._texts.setdefault(self._inside, []).append(text)

    def end(self, tag: str) -> None:
        self._inside = ""
        if tag == "property":
            name = "".join(self._texts.get("name", ())).strip()
            if name in _USED:
                self.found[name] = "".join(self._texts.get("value", ()))
