"""Marks columns of ORC files so that Spark does not push filters into them.

Spark translates a pushed filter by the type of the file's column. If that type and the table's belong to
different families, the query fails (reference: spark-4.0.md §2). During a promotion to STRING, the same file
must be readable with both types, so Spark must not push filters into the promoted column.

A file without column names (``_col0``) would also avoid the pushdown, but is not an alternative: Spark reads
it with a different schema, and passes the schema to ORC through a Hadoop configuration that all tasks of a
query in one JVM share (``OrcUtils.orcResultSchemaString``). If both kinds of file are read at the same time,
queries fail with ClassCastException or ArrayIndexOutOfBoundsException, or read one column in place of
another.

Spark takes the type of a file's column from the ORC attribute ``spark.sql.catalyst.type`` if it is present,
and pushes no filter into binary columns. ORC itself ignores the attribute: it converts the text to the type
that the table declares. Spark's writer cannot set the attribute to a type other than the column's, so the
file is copied once with a new footer.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from state.errors import FilesUnavailable, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from streaming.storage.port import Storage


_ATTRIBUTE: Final = "spark.sql.catalyst.type"
_NOT_FILTERED: Final = "binary"
_PREFIX: Final = "g-"
"""Prefix of the names of marked files."""


class PushdownGuard:
    """Marks files through ORC's own library in the JVM of a Spark session."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001 - likewise
        self._storage = storage

    def mark_directory(self, directory: str, slots: Collection[int]) -> None:
        """Replace every ORC file of ``directory`` by a marked copy, before readers see the directory. Raises
        FilesUnavailable.
        """
        if not slots:
            return
        for entry in self._storage.list(directory):
            if entry.name.endswith(".orc"):
                source = f"{directory}/{entry.name}"
                kept_bytes, tail = self._build_tail(source, slots)
                self._storage.copy_with_tail(source, f"{directory}/{_PREFIX}{entry.name}", kept_bytes, tail)
                self._storage.remove(source)

    def _build_tail(self, path: str, slots: Collection[int]) -> tuple[int, bytes]:
        """Return the length of the unchanged part of a file, and its new end: footer, postscript, and the
        postscript's length.
        """
        orc = self._jvm.org.apache.orc.OrcFile
        with orc_errors(path):
            reader = orc.createReader(
                self._jvm.org.apache.hadoop.fs.Path(path), orc.readerOptions(self._conf)
            )
            try:
                old = reader.getFileTail()
                footer = bytes(self._build_footer(old.getFooter(), slots))
                if str(reader.getCompressionKind()) != "NONE":
                    footer = stored_chunks(footer, int(reader.getCompressionSize()))
            finally:
                reader.close()
            postscript = old.getPostscript()
            old_bytes = postscript.getFooterLength() + old.getPostscriptLength() + 1
            new = bytes(postscript.toBuilder().setFooterLength(len(footer)).build().toByteArray())
            return int(old.getFileLength() - old_bytes), footer + new + bytes([len(new)])

    def _build_footer(self, footer: Any, slots: Collection[int]) -> Any:
        pair = getattr(self._jvm.org.apache.orc, "OrcProto$StringPair")
        mark = pair.newBuilder().setKey(_ATTRIBUTE).setValue(_NOT_FILTERED).build()
        builder = footer.toBuilder()
        for slot in slots:
            if slot + 1 < builder.getTypesCount():  # type 0 is the row itself
                builder.getTypesBuilder(slot + 1).clearAttributes().addAttributes(mark)
        return builder.build().toByteArray()


def stored_chunks(content: bytes, chunk_bytes: int) -> bytes:
    """Return ``content`` as chunks of a compressed ORC stream,
    each with the header of an uncompressed chunk.
    """
    chunks = (content[at : at + chunk_bytes] for at in range(0, len(content), chunk_bytes))
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


@contextmanager
def orc_errors(path: str) -> Iterator[None]:
    """Raise FilesUnavailable if ORC's library cannot read the file, and StateCorrupt if it is not an ORC
    file.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception)[:500]
        if error.java_exception.getClass().getName().endswith("FileFormatException"):
            raise StateCorrupt(
                "a file of a flat table is not an ORC file", path=path, reason=reason
            ) from error
        raise FilesUnavailable("an ORC file cannot be read", path=path, reason=reason) from error
    except Py4JError as error:
        raise FilesUnavailable("Spark's JVM does not answer", path=path, reason=str(error)[:500]) from error
