"""The schema files of Avro tables, which a property of a table or partition names by their URL at the source.

Readers need the file for every query (AvroSerdeUtils.determineSchemaOrThrowException): Tideline copies it
like the jars of functions, and the property names the copy. Copies are in a hidden directory next to the
tables, ``DATABASE/.tideline_schemas/HASH/FILE``. The hash is that of the content: a changed schema is another
file. It does not disturb readers of the old one, and a rename of the table does not concern it. A drop of the
database removes all.

The copy has the content at the time of replay. If a file changes without an event, the table's next event
copies it. An unreadable schema is a failure of the table, because no row is readable without it. A URL of
``http`` or ``https`` means the same on both clusters and stays, except for WebHDFS, which is a file system of
the source.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, Protocol, TypeVar

from handlers.files.copying.pool import CopyPool
from handlers.files.directories import require_directory, require_reachable
from handlers.files.filesystems import FileSystems, read_chunks
from handlers.files.paths import AllowedRoots, Location, parse_location, printable
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Partition, StorageDescriptor, Table
from state.errors import FileLost, LimitExceeded, NotFound, TargetDiverged, Unsupported


SCHEMA_URLS: Final = frozenset({"avro.schema.url", "avroschemaurl"})
"""Properties with the URL of a schema, in lower case: Hive's, and the option ``avroSchemaUrl`` of Spark's
data source."""
NO_SCHEMA: Final = "none"
DIRECTORY: Final = ".tideline_schemas"
SCHEMA_BYTES_MAX: Final = 16 * 1024**2
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WEB: Final = frozenset({"http", "https"})


T = TypeVar("T", Table, Partition)


class SchemaTools(Protocol):
    """Tools for the copies: the context of replay, or the tools of a load."""

    @property
    def policy(self) -> Policy:
        """The policy."""

    @property
    def target(self) -> Metastore:
        """The target's metastore."""

    @property
    def files(self) -> FileSystems:
        """The file systems of both sides."""

    @property
    def copies(self) -> CopyPool:
        """Knows the readable files."""


class SchemaFiles:
    """Copies the schema files of the tables and partitions of one event or load, reading each file once."""

    def __init__(self, tools: SchemaTools) -> None:
        self._tools = tools
        self._copied: dict[Location, str] = {}

    def place(self, item: T) -> T:
        """Copy the schema files of a table or partition of the source,
        and change its properties to name the copies.

        Raises UnsafePath for a file outside of the allowed directories, FileLost, LimitExceeded, Unsupported,
        and transient errors.
        """
        if is_avro(item):
            for properties in _list_properties(item):
                for key, url in properties.items():
                    location = locate_schema(key, url, item.sd.location)
                    if location is not None:
                        properties[key] = self._copy(location)
        return item

    def _copy(self, source: Location) -> str:
        """Copy a schema if the target lacks it, and return the location of the copy."""
        if source not in self._copied:
            data = self._read(source)
            target = self._find_directory().join(f"{DIRECTORY}/{_hash(data)}").child(source.name)
            self._write(target, data)
            self._copied[source] = str(target)
        return self._copied[source]

    def _read(self, source: Location) -> bytes:
        tools = self._tools
        allowed = tools.copies.allowed
        try:
            return read_schema(tools.files, allowed.require(source))
        except NotFound as missing:
            require_reachable(tools.files, source, allowed)
            raise FileLost(
                "the schema of the Avro table is missing",
                path=printable(str(source)),
                hint="Restore the file, or set the table's avro.schema.url; then run 'tideline release "
                "POLICY TABLE'.",
            ) from missing

    def _find_directory(self) -> Location:
        db = self._tools.policy.target_db
        location = self._tools.target.get_database(db).locationUri
        if location is None:
            raise TargetDiverged("the target's database has no location", database=db)
        return parse_location(location)

    def _write(self, target: Location, data: bytes) -> None:
        files = self._tools.files.of(target)
        try:
            if files.stat(target).size_bytes == len(data):
                return
        except NotFound:
            pass
        require_directory(self._tools.files, target.parent.parent.parent.parent)
        with files.create(target, len(data)) as stream:
            stream.write(data)
            self._tools.target.guard()
            stream.publish()
        files.settle(target.parent)


def is_avro(item: Table | Partition) -> bool:
    """Whether Avro's SerDe reads the rows, in Hive or in Spark."""
    storage: StorageDescriptor | None = item.sd  # partitions of views have none
    serde = None if storage is None else storage.serdeInfo
    return serde is not None and "avro" in (serde.serializationLib or "").lower()


def _list_properties(item: Table | Partition) -> Iterator[dict[str, str]]:
    """Yield the properties of a table or partition that may name a schema, for changes in place."""
    serde = item.sd.serdeInfo
    for properties in (item.parameters, item.sd.parameters, serde and serde.parameters):
        if properties and any(key.lower() in SCHEMA_URLS for key in properties):
            yield properties


def locate_schema(key: str, url: str, beside: str | None) -> Location | None:
    """Return the file that a property names;
    None if it names none, or one that both clusters reach by the same URL.

    A URL without scheme or host is of the default file system, which is that of the table's location
    ``beside``. Raises UnsafePath and Unsupported.
    """
    if key.lower() not in SCHEMA_URLS or url.strip().lower() in {"", NO_SCHEMA}:
        return None
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[1].lower() in _WEB:
        if "/webhdfs/" in url:
            raise Unsupported(
                "the schema is a file of the source, named by a WebHDFS address", url=printable(url)
            )
        return None
    location = parse_location(url)
    default = location if beside is None else parse_location(beside)
    if location.authority or (scheme is not None and location.scheme != default.scheme):
        return location
    return Location(default.scheme, default.authority, location.path)


def read_schema(files: FileSystems, location: Location) -> bytes:
    """Return the content of a schema file; raise NotFound, LimitExceeded and the file system's errors."""
    content = b""
    for chunk in read_chunks(files.of(location), location):
        content += chunk
        if len(content) > SCHEMA_BYTES_MAX:
            raise LimitExceeded(
                "the schema of the Avro table is too large",
                path=printable(str(location)),
                limit=SCHEMA_BYTES_MAX,
            )
    return content


def describe_schemas(
    item: T,
    files: FileSystems,
    digests: dict[Location, str],
    allowed: AllowedRoots | None = None,
    *,
    at_source: bool,
) -> T:
    """Return a copy of a table or partition whose properties describe the content of its schemas.

    A URL on the target that does not name a copy stays, so that it counts as a difference. ``digests`` holds
    earlier results. Raises UnsafePath for a schema outside of ``allowed``, if given.
    """
    if not is_avro(item) or not any(_list_properties(item)):
        return item
    described = item.copy()
    for properties in _list_properties(described):
        for key, url in properties.items():
            try:
                location = locate_schema(key, url, item.sd.location)
                if location is not None and (at_source or f"/{DIRECTORY}/" in location.path):
                    if allowed is not None:
                        allowed.require(location)
                    if location not in digests:
                        digests[location] = f"{location.name} {_hash(read_schema(files, location))}"
                    properties[key] = digests[location]
            except (NotFound, LimitExceeded, Unsupported) as error:
                properties[key] = error.message
    return described


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
