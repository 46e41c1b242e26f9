"""A flat table as a dataset of PyArrow, which DuckDB, Polars and pandas read as well. It needs neither Spark
nor a metastore.

A dataset over the table's directory would read replaced files together with current ones, and take the types
of its first file. This dataset has the files and columns that are current when it is opened
(``streaming.table.current_files``). Values in older files are converted to the current type when they are
read. The dataset does not contain files that batches add later, and its files exist for at least another
``old_files_s``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from handlers.files.paths import Location, parse_location
from state.errors import InvalidRequest
from streaming.table.current_files import find_current_files


if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyarrow.dataset import Dataset

    from streaming.table.current_files import CurrentTable, DataFile


_S3: Final = ("s3a", "s3n")
"""Hadoop's names for PyArrow's ``s3``."""
_TYPES: Final = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "double": "float64",
    "string": "string",
    "boolean": "bool",
}


def open_dataset(location: str | os.PathLike[str], filesystem: Any = None) -> Dataset:
    """Open the flat table at ``location`` as it is now: a path, or a URI that PyArrow can open.

    ``filesystem`` is a file system of PyArrow or fsspec, in which ``location`` is a path; it is needed for
    stores with their own settings. Hadoop's configuration names HDFS. Open the dataset again to see later
    rows and columns.

    Raises NotFound if there is no flat table, or if its driver has not run since Tideline has this function.
    """
    files = _open_files(str(location), filesystem)
    current, data_files = find_current_files(files.table, files.read, files.list_directory)
    return _build_dataset(files, current, data_files)


class _ArrowFiles:
    """The files of a table through a file system of PyArrow, in which the table's directory is ``path``."""

    def __init__(self, table: Location, library: Any, path: str) -> None:
        self.table = table
        self.library = library
        self._path = path.rstrip("/")

    def path(self, location: Location) -> str:
        """Return the path of a location below the table."""
        if not self.table.contains(location):
            raise InvalidRequest(
                "the files of an hour are not in the table's directory",
                location=str(location),
                table=str(self.table),
                hint="Read the table with an engine that uses its metastore.",
            )
        return self._path + location.path[len(self.table.path) :]

    def read(self, location: Location) -> str | None:
        """Return the text of a file; None if it does not exist."""
        try:
            with self.library.open_input_stream(self.path(location)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def list_directory(self, directory: Location) -> Sequence[str]:
        """Return the names of the files in a directory, none if it does not exist."""
        from pyarrow.fs import FileSelector

        entries = self.library.get_file_info(FileSelector(self.path(directory), allow_not_found=True))
        return [entry.base_name for entry in entries if entry.is_file]


def _open_files(location: str, filesystem: Any) -> _ArrowFiles:
    from pyarrow import fs

    if filesystem is not None:
        is_arrow = isinstance(filesystem, fs.FileSystem)
        library = filesystem if is_arrow else fs.PyFileSystem(fs.FSSpecHandler(filesystem))
        return _ArrowFiles(parse_location(f"/{location.strip('/')}"), library, location)
    if ":/" not in location:
        path = str(Path(location).absolute())
        return _ArrowFiles(parse_location(path), fs.LocalFileSystem(), path)
    table = parse_location(location)
    if table.scheme == "hdfs":
        return _ArrowFiles(table, fs.PyFileSystem(fs.FSSpecHandler(_open_hdfs(table))), table.path)
    uri = str(table).replace(f"{table.scheme}:", "s3:", 1) if table.scheme in _S3 else location
    return _ArrowFiles(table, *fs.FileSystem.from_uri(uri))


def _open_hdfs(table: Location) -> Any:
    """Return a file system of fsspec: PyArrow's own needs Hadoop's native library."""
    from hdfs_native.fsspec import HdfsFileSystem

    host, _, port = table.authority.partition(":")
    return HdfsFileSystem(host=host or None, port=int(port) if port else None)


def _build_dataset(files: _ArrowFiles, current: CurrentTable, data_files: Sequence[DataFile]) -> Dataset:
    import pyarrow as pa
    from pyarrow import dataset

    fields = [pa.field(name, pa.type_for_alias(_TYPES[kind])) for name, kind in current.columns]
    keys = [pa.field(name, pa.type_for_alias(_TYPES[kind])) for name, kind in current.partition_columns]
    form = dataset.OrcFileFormat()
    fragments = []
    for each in data_files:
        condition = dataset.scalar(True)
        for key, value in zip(keys, each.values, strict=True):
            condition &= dataset.field(key.name) == pa.scalar(value).cast(key.type)
        fragments.append(form.make_fragment(files.path(each.location), files.library, condition))
    return dataset.FileSystemDataset(fragments, pa.schema(fields + keys), form, files.library)
