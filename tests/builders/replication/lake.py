"""A source database over directories that other programs write into, with its replica; on any file
systems."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.copying.jobs import CopyJobs
from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from handlers.replication.external.cycle import DIRECTORY_LIST, ExternalSettings
from state.external.directories import parse_directories
from tests.builders.replication.external import ExternalCopies
from tests.builders.replication.replica import Replica, build_replica


@dataclass(frozen=True)
class Lake:
    """The directory ``root`` of the source, and ``base`` above all copies."""

    root: str
    base: str
    replica: Replica
    copies: ExternalCopies
    source_sql: Session
    target_sql: Session

    def put(self, path: str, *rows: str) -> None:
        """Write a text file as a program outside of Hive does."""
        self.write(f"{self.root}/{path}", "".join(f"{row}\n" for row in rows))

    def write(self, uri: str, text: str) -> None:
        """Write a file on either side."""
        location, content = parse_location(uri), text.encode()
        files = self.replica.files.of(location)
        with files.create(location, len(content)) as writer:
            writer.write(memoryview(content))
            writer.publish()
        files.settle(location.parent)

    def remove(self, path: str) -> None:
        """Remove a file of the source."""
        location = parse_location(f"{self.root}/{path}")
        self.replica.files.of(location).remove(location)

    def remove_tree(self, path: str) -> None:
        """Remove a directory of the source."""
        location = parse_location(f"{self.root}/{path}")
        self.replica.files.of(location).remove_tree(location)

    def target_of(self, path: str) -> str:
        """Return where the copy of a file or directory is."""
        return f"{self.base}{parse_location(self.root).path}/{path}"

    def run(self, sql: str) -> None:
        self.source_sql.run(sql.format(db=self.replica.policy.source_db, root=self.root))

    def listed(self, table: str) -> list[str]:
        """Return the directories of a table in the list that the last cycle wrote."""
        assert self.copies.settings.list_directory is not None
        text = (self.copies.settings.list_directory / DIRECTORY_LIST).read_text()
        return [directory for name, directory in parse_directories(text) if name == table]

    def rows(self, query: str) -> list[tuple[str, ...]]:
        """Return the target's rows in order, which must be those of the source; sorted here, so that Hive
        starts no job."""
        source, target = self.replica.policy.source_db, self.replica.policy.target_db
        found = sorted(self.target_sql.rows(query.format(db=target)))
        assert found == sorted(self.source_sql.rows(query.format(db=source)))
        return found


@contextmanager
def open_lake(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    lists: Path,
    files: Mapping[str, Mapping[str, object]] | None = None,
    jobs: CopyJobs | None = None,
) -> Iterator[Lake]:
    """Provide a database with three external tables, in directories below those of the two clusters.

    ``files`` are options of file systems. The directory of the table ``absent`` does not exist.
    """
    db = f"lake_{uuid.uuid4().hex[:8]}"
    root, base = (
        str(parse_location(f"{cluster.external}/{name}"))
        for cluster, name in ((source, db), (target, f"base_{db}"))
    )
    with (
        Session.connect(source.sql) as source_sql,
        Session.connect(target.sql) as target_sql,
        closing(Metastore([source.metastore])) as metastore,
    ):
        before = metastore.current_event_id()
        source_sql.run(f"create database {db}")
        replica = build_replica(
            source.metastore,
            target.metastore,
            db=db,
            roots=[source.warehouse, source.external, source.cmroot],
            start=before,
            files=files,
            jobs=jobs,
            external_base=base,
        )
        settings = ExternalSettings(every_s=60, delete=False, workers=4, list_directory=lists)
        with closing(replica.projection):
            made = Lake(
                root, base, replica, ExternalCopies(replica.context, settings), source_sql, target_sql
            )
            _fill(made)
            replica.follow()
            yield made


def _fill(lake: Lake) -> None:
    lake.put("flat/a.txt", "1,pen", "2,ink")
    lake.put("parts/dt=a/one.txt", "1")
    lake.put("old/b/one.txt", "2")
    lake.run(
        "create external table {db}.flat (id int, item string) "
        "row format delimited fields terminated by ',' location '{root}/flat'"
    )
    lake.run(
        "create external table {db}.parts (id int) partitioned by (dt string) "
        "row format delimited fields terminated by ',' location '{root}/parts'"
    )
    lake.run("alter table {db}.parts add partition (dt='a')")
    lake.run("alter table {db}.parts add partition (dt='b') location '{root}/old/b'")
    lake.run(
        "create external table {db}.absent (id int) "
        "row format delimited fields terminated by ',' location '{root}/absent'"
    )
    lake.remove_tree("absent")
