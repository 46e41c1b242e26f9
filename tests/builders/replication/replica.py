"""A replication projection on real metastores that reads the notification log directly, without Kafka.

The records are encoded and decoded by the same code as in the daemon. Only the topic is left out, which has
tests of its own.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from dev.demo.compare import Side, compare_databases
from dev.fixtures.notifications import read_events
from handlers.events import Event
from handlers.files.copying.copies import Copier
from handlers.files.copying.jobs import CopyJobs
from handlers.files.copying.pool import CopyPool
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from handlers.structs.objects import Table
from state.errors import NotFound
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store
from state.store.memory import MemoryStore


_NO_SQL: Final[Any] = None
"""No rows are compared."""


@dataclass
class Replica:
    """A policy between two clusters, with its projection."""

    source: Metastore
    target: Metastore
    policy: Policy
    store: Store
    projection: ReplicationProjection
    context: Context
    files: FileSystems

    def events(self, after: int, *, upto: int | None = None) -> list[Event]:
        """Read the source's log after event ``after``, in the form that the consumer delivers."""
        return read_events(self.source, after, upto=upto)

    def follow(self, *, upto: int | None = None) -> Position:
        """Apply all events after the position, or those up to event ``upto``."""
        position = self.projection.open()
        events = self.events(position.event_id, upto=upto)
        if events:
            position = self.projection.apply(events)
        self.projection.settle()
        # So the target has the position, which otherwise waits for its turn.
        self.projection.begin_pause()
        self.projection.pause.end()
        return position

    def differences(self, *, files: bool = True) -> list[str]:
        """Compare both sides except for rows: objects, parameters, statistics, write ids and files.

        A loaded table lacks the files that the source has replaced but not removed; compare it without
        ``files``.
        """
        found = compare_databases(
            Side(self.source, _NO_SQL, self.policy.source_db),
            Side(self.target, _NO_SQL, self.policy.target_db),
            {},
        )
        return found.list_differences() + (file_differences(self) if files else [])

    def quarantined(self) -> dict[str, str]:
        """Return the quarantined tables (without database) and their error codes."""
        return {entry.table: entry.code for entry in self.context.tables.quarantine.entries()}


def build_replica(  # noqa: PLR0913 - what a policy can be started with
    source_uri: str,
    target_uri: str,
    *,
    db: str,
    roots: list[str],
    target_db: str | None = None,
    store: Store | None = None,
    start: bool | int = True,
    bootstrap: BootstrapOptions | None = None,
    files: Mapping[str, Mapping[str, object]] | None = None,
    jobs: CopyJobs | None = None,
    overlaps: bool = True,
    **policy: object,
) -> Replica:
    """Return a replica of ``db`` as ``target_db`` (``db_r``);
    ``roots`` are the directories files may be read from.

    ``start`` says where it begins: True, with a bootstrap now; a number, after that event, which must precede
    the creation of the source's database; False, at the position in the store. ``files`` are the options of
    file systems.
    """
    source = Metastore([source_uri])
    chosen = Policy(name=db, source_db=db, target_db=target_db or f"{db}_r", **policy)  # type: ignore[arg-type]
    kept = store if store is not None else MemoryStore()
    file_systems = open_file_systems(files)
    position = TargetPosition(Metastore([target_uri]), chosen)
    copier = Copier(file_systems, AllowedRoots.of(roots), guard=position.require_held)
    context = Context.between(
        source,
        position,
        chosen,
        copies=CopyPool(copier, workers=4),
        files=file_systems,
        observer=SilentObserver(),
        jobs=jobs,
    )
    context = replace(context, overlaps=overlaps)
    target = context.target
    if start is True:
        begin_bootstrap(source=source, target=target, policy=chosen, store=kept)
    elif start is not False:
        start_after(kept, start)
    projection = ReplicationProjection(source_name="test", context=context, store=kept, bootstrap=bootstrap)
    return Replica(source, target, chosen, kept, projection, context, file_systems)


def start_after(store: Store, event_id: int) -> None:
    """Make a new projection start after ``event_id``, as its bootstrap would."""
    with store.transaction() as txn:
        txn.put(POSITION_KEY, Position(event_id).to_bytes())


def file_differences(replica: Replica) -> list[str]:
    """Compare the files of every table on both sides; those of transactions that the source aborted must be
    missing."""
    lines: list[str] = []
    for name in replica.source.table_names(replica.policy.source_db):
        ours = replica.source.get_table(replica.policy.source_db, name)
        try:
            theirs = replica.target.get_table(replica.policy.target_db, name)
        except NotFound:
            continue  # reported by the comparison of objects
        if ours.sd.location is None or theirs.sd.location is None:
            continue
        aborted = _aborted_write_ids(replica, ours)
        wanted = {
            path: size
            for path, size in files_below(ours.sd.location, replica.files).items()
            if not any(f"{write_id:07d}_{write_id:07d}" in path for write_id in aborted)
        }
        found = {
            _without_suffix(path, wanted): size
            for path, size in files_below(theirs.sd.location, replica.files).items()
        }
        lines += [f"{name}: file {path} is missing" for path in sorted(wanted.keys() - found.keys())]
        lines += [f"{name}: file {path} is only here" for path in sorted(found.keys() - wanted.keys())]
        lines += [
            f"{name}: file {path} has {found[path]} bytes, not {wanted[path]}"
            for path in sorted(wanted.keys() & found.keys())
            if wanted[path] != found[path]
        ]
    return lines


def _without_suffix(path: str, wanted: Container[str]) -> str:
    """Return the path of an overwrite's file at the source; on the target, the base is named after the
    transaction."""
    plain = re.sub(r"(^|/)(base_\d+)_v\d+/", r"\1\2/", path)
    return plain if plain in wanted else path


def files_below(location: str, file_systems: FileSystems | None = None) -> dict[str, int]:
    """Return the sizes in bytes of the visible files below a directory, by their path in it; empty if it does
    not exist."""
    systems = file_systems or open_file_systems()
    return dict(_walk(systems, parse_location(location), ""))


def _walk(systems: FileSystems, directory: Location, path: str) -> Iterator[tuple[str, int]]:
    with suppress(NotFound):
        for entry in systems.of(directory).list(directory):
            if entry.is_directory:
                yield from _walk(systems, directory.child(entry.name), f"{path}{entry.name}/")
            elif not entry.name.startswith((".", "_")):
                yield f"{path}{entry.name}", entry.size_bytes


def _aborted_write_ids(replica: Replica, table: Table) -> tuple[int, ...]:
    if (table.parameters or {}).get("transactional") != "true":
        return ()
    return replica.source.valid_write_ids([f"{replica.policy.source_db}.{table.tableName}"])[0].aborted
