"""Builds events about written files, without the files that their transaction did not write.

The topic contains write events only if the relay wrote the record and the metastore answered. Replay fetches
those of all other commits itself (``decode_write_event``), with the fields and limits of the relay's
``WRITE`` records.

Hive selects the files of a write event by their paths, and names too many (seen on 4.2, on all kinds of
transactional tables):

* A dynamic partition insert logs one event for each partition. It selects the files of a partition by the
  beginning of their paths and does not require a separator behind it, so the event of ``month=1`` also names
  the files of ``month=10``.
* A ``CREATE TABLE AS SELECT`` names everything in the table's directory. There may be others: files of a
  renamed table that kept its directory, because its name has special characters, or the rest of an
  interrupted drop. They have other write ids, or are in directories of partitions.

The files of a bucket have the same name in every partition: without these checks, they would replace each
other's rows on the target, and a base of another table would hide all rows. The write event of their own
partition or transaction names the omitted files.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from handlers.decoding.fields import Fields, fill_names, parse_source_files
from handlers.decoding.header import WRITE_KIND, EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, Limits
from handlers.decoding.records.commit_parts import build_write_message
from handlers.events import FilesWritten
from handlers.structs import tjson
from handlers.structs.objects import Partition, Table
from state.errors import BadInput, LimitExceeded, MalformedEvent
from state.transactions.acid_directories import AcidDirectory


if TYPE_CHECKING:
    from handlers.events import SourceFile, TxnCommitted
    from handlers.structs.notifications import WriteEventInfo


_ACID_LIKE: Final = re.compile(r"(base|delta|delete_delta)_")
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def decode_write_event(commit: TxnCommitted, info: WriteEventInfo) -> FilesWritten:
    """Return a write event of ``commit``, as if the relay had put it in front of the commit.

    A metastore returned ``info``. The event has the commit's event id. Raises BadInput if it is unusable.
    """
    header = EventHeader(commit.event_id, commit.part, commit.parts, time_s=commit.time_s, kind=WRITE_KIND)
    return build_files_written(
        header.fields(), Fields(build_write_message(commit.txn_id, info), DEFAULT_LIMITS)
    )


def build_files_written(common: dict[str, Any], message: Fields) -> FilesWritten:
    """WRITE (from the relay) and ACID_WRITE_EVENT (from other listeners), which have the same fields."""
    partition_name = message.text("partition") or ""
    if len(partition_name) > message.limits.path_chars:
        raise LimitExceeded(
            "the partition name exceeds its limit", limit="path_chars", chars=len(partition_name)
        )
    named = fill_names(common, message, "database", "table")
    if named["db"] is None or named["table"] is None:
        raise MalformedEvent("the write event does not name a table")
    write_id = message.required_number("writeId", least=1)
    owner_text, partition_text = message.text("tableObjJson"), message.text("partitionObjJson")
    files, raw_files = read_written_files(
        message.texts("files", "files"),
        write_id=write_id,
        partition_name=partition_name,
        owner=(Partition, partition_text) if partition_name else (Table, owner_text),
        limits=message.limits,
    )
    return FilesWritten(
        **named,
        txn_id=message.required_number("txnid", least=1),
        write_id=write_id,
        partition_name=partition_name,
        files=files,
        raw_files=raw_files,
        owner_text=owner_text,
        partition_text=partition_text,
        listed=message.flag("listed") is True,
        incomplete=message.text("incomplete"),
    )


def read_written_files(
    entries: tuple[str, ...],
    *,
    write_id: int,
    partition_name: str,
    owner: tuple[type[Table | Partition], str | None],
    limits: Limits,
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the files that the write with ``write_id`` put into the table or partition, and their entries.

    ``owner`` is the type and the encoded object of the owner of the files; the decoder reads it only if the
    directories alone do not decide. An unreadable table object decides nothing, because the events of most
    publishers do not need it. Raises MalformedEvent or LimitExceeded.
    """
    files = parse_source_files(entries, limits)
    own = [_may_contain(file.subdir, write_id) for file in files]
    directories = {_directory(file) for file, is_own in zip(files, own, strict=True) if is_own}
    if not _is_evident(directories, partition_name, owner[1]):
        location = _find_location(*owner)
        foreign = {each for each in directories if location and _is_foreign(each, location)}
        own = [is_own and _directory(file) not in foreign for file, is_own in zip(files, own, strict=True)]
    return tuple(compress(files, own)), tuple(compress(entries, own))


def _may_contain(subdir: str, write_id: int) -> bool:
    """Whether the write can have made the ACID directory; malformed names are refused later, when the
    target's path is made.
    """
    try:
        directory = AcidDirectory.parse(subdir.partition("/")[0])
    except BadInput:
        return True
    return directory is None or directory.first <= write_id <= directory.last


def _is_evident(directories: set[str], partition_name: str, owner_text: str | None) -> bool:
    """Whether all files are in the directory of their owner, as its name or its encoded object says."""
    if partition_name:
        return all(each.endswith(f"/{partition_name}") for each in directories)
    return all(owner_text is None or f'"{each}"' in owner_text for each in directories)


def _directory(file: SourceFile) -> str:
    """Return the directory of the file's partition: the part of the path before the ACID directory, or
    before the file's name if the path has no ACID directory.
    """
    below = f"/{file.subdir}/" if file.subdir else "/"
    directory, separator, _ = file.uri.rpartition(below)
    return directory if separator else file.uri.rpartition("/")[0]


def _find_location(kind: type[Table | Partition], text: str | None) -> str | None:
    if text is None:
        return None
    try:
        location = tjson.decode(kind, text).sd.location
    except MalformedEvent:
        if kind is Table:
            return None
        raise
    return location.rstrip("/") if location else None


def _is_foreign(directory: str, location: str) -> bool:
    """Whether ``directory`` is a sibling of ``location`` whose name begins with the name of ``location``,
    or a partition below ``location``.
    """
    path, start = (_AUTHORITY.sub("", each, count=1) for each in (directory, location))
    if not path.startswith(start) or path == start:
        return False
    below = path[len(start) :]
    return below[0] != "/" or not any(map(_ACID_LIKE.match, below.split("/")))
