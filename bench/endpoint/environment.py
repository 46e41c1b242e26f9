"""The servers of the cases: a metastore with a large table, the index of that table, the endpoint, and Waggle
Dance.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.events.environment import say
from bench.partitions.metastore import build_partition, generate_values
from daemon.catalog.opening import CATALOG_VERSION
from daemon.state_directory.directory import state_path
from dev.fixtures.hive_tables import a_table
from dev.stack import cli
from dev.stack.errors import StackError
from dev.stack.hive.servers import Metastore as MetastoreServer
from dev.stack.process.java_runtime import FRUGAL
from dev.stack.servers.waggle_dance import WaggleDance
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.metastore.calls import Call
from handlers.metastore.client import Metastore
from handlers.structs.exceptions import MetaException, NoSuchObjectException
from handlers.structs.objects import Database, FieldSchema, Partition
from handlers.structs.struct import i16
from state.store.sqlite import SqliteStore


KEPT: Final = "TIDELINE_BENCH_ENDPOINT"
"""Environment variable that names a directory in which metastore and index are kept for further runs, because
adding 100,000 partitions takes minutes."""
DB, TABLE = "bench", "events"
SOURCE: Final = "lake"
KEYS: Final = [("ds", "string"), ("hr", "int"), ("region", "string")]
CONFIG: Final = f"""\
state: {{{{dir: {{state}}}}}}
logs: {{{{format: json}}}}
kafka: {{{{bootstrap: "127.0.0.1:9"}}}}
sources: {{{{{SOURCE}: {{{{metastore: {{metastore}}, topic: unused}}}}}}}}
catalog: {{{{{SOURCE}: {{{{partitions: {{{{tables: ["{DB}.*"], read_expressions: true}}}}}}}}}}}}
serve: {{{{{SOURCE}: {{{{run: false, listen: "127.0.0.1:0", {{freshness}}}}}}}}}}
"""
FRESHNESS: Final = {
    "exact": "freshness: exact",
    "bounded": "freshness: bounded, bound_ms: 1000",
    "eventual": "freshness: eventual",
}
"""Exact, the default, requires the metastore's newest event id for each answer; bounded requires it once a
second, and eventual never.
"""
COLUMNS: Final = [(f"column_{number:02}", "string") for number in range(20)]
BATCH: Final = 200
"""Partitions added in one call. Derby stores at most 32 KB of an event."""


class CompiledMetastore(MetastoreServer):
    """A metastore with the JVM's default compilers and collector. Those of the tests start faster, but are
    slower later.
    """

    def command(self) -> list[str]:
        """The command of the same server without the options that save time at the start."""
        return [option for option in super().command() if option not in FRUGAL]


_BY_FILTER: Final = Call(
    "get_partitions_by_filter",
    {"db_name": str, "tbl_name": str, "filter": str, "max_parts": i16},
    list[Partition],
    (MetaException, NoSuchObjectException),
    changes=False,
)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the servers."""

    metastore: int
    endpoint: int
    """Freshness is exact, as by default."""
    bounded: int
    eventual: int
    waggle_dance: int | None
    """None if it could not be started."""


@contextmanager
def environment(partitions: int) -> Iterator[Ports]:
    """Run all servers, with this number of partitions in the metastore and in the index."""
    with ExitStack() as stack:
        directory = _directory(stack, partitions)
        cli.fetch_all()
        server = CompiledMetastore(directory / "metastore")
        stack.callback(server.stop)
        server.start()
        filled = directory / "filled"
        if not filled.exists():
            fill(server.uri, partitions)
            fill_index(server.uri, directory / "state")
            filled.touch()
        exact, bounded, eventual = (
            stack.enter_context(run_endpoint(server.uri, directory, each)) for each in FRESHNESS
        )
        waggle_dance = _start_waggle_dance(stack, directory, server.uri)
        yield Ports(server.port, exact, bounded, eventual, waggle_dance)


def _directory(stack: ExitStack, partitions: int) -> Path:
    kept = os.environ.get(KEPT)
    if kept is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory()))
    directory = Path(kept, str(partitions)).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _start_waggle_dance(stack: ExitStack, directory: Path, metastore: str) -> int | None:
    try:
        server = WaggleDance(directory / "waggle-dance", metastore)
        stack.callback(server.stop)
        server.start()
    except StackError as error:
        say(f"Waggle Dance is not measured: {error}")
        return None
    return server.port


@contextmanager
def run_endpoint(metastore: str, directory: Path, freshness: str) -> Iterator[int]:
    """Run ``tideline serve`` with the index in ``directory`` and provide its port."""
    config = directory / f"tideline-{freshness}.yaml"
    config.write_text(
        CONFIG.format(metastore=metastore, state=directory / "state", freshness=FRESHNESS[freshness])
    )
    program = [sys.executable, "-c", "from daemon.service.command_line import main; main()"]
    command = [*program, "serve", "--source", SOURCE, "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(json.loads(process.stdout.readline())["listen"].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


def fill(uri: str, partitions: int) -> None:
    """Create the table and its partitions, all in the table's directory, because creating directories would
    take longer.
    """
    with Metastore(uri) as client:
        client.create_database(Database(name=DB))
        table = a_table(DB, TABLE, external=True, columns=COLUMNS)
        table.partitionKeys = [FieldSchema(name=name, type=kind) for name, kind in KEYS]
        client.create_table(table)
        table = client.get_table(DB, TABLE)
        values = itertools.islice(generate_values(), partitions)
        for done in range(0, partitions, BATCH):
            some = [build_partition(table, each) for each in itertools.islice(values, BATCH)]
            client.add_partitions(DB, TABLE, some)
            if (done + BATCH) % 10_000 == 0:
                say(f"{done + BATCH:,} partitions")


def fill_index(uri: str, state: Path) -> None:
    """Load the table into the index like the daemon. No daemon follows the metastore afterwards, because
    nothing changes.
    """
    state.mkdir()
    store = SqliteStore(
        state_path(state, "catalog", SOURCE), schema_version=CATALOG_VERSION, snapshots=True, durable=False
    )
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    with _MetastoreByDay(uri) as client:
        projection = CatalogProjection(
            source_name=SOURCE, source=client, store=store, followers=[follower], beat=lambda: None
        )
        follower.turns = projection.turns
        projection.open()
        projection.load_all()
        projection.close()
    say("the index is loaded")


class _MetastoreByDay(Metastore):
    """A client that requests the partitions of whole days, because a metastore on Derby takes two seconds for
    500 names of a table of this size.
    """

    def get_partitions(
        self,
        db: str,
        table: str,
        names: Sequence[str],
        *,
        with_columns: bool = True,  # noqa: ARG002 - always with columns
    ) -> list[Partition]:
        """Return the named partitions."""
        chosen = set(names)
        days = sorted({name.partition("/")[0].removeprefix("ds=") for name in names})
        found = [each for day in days for each in self._invoke(_BY_FILTER, db, table, f"ds = '{day}'", -1)]
        return [each for each in found if "ds={}/hr={}/region={}".format(*each.values or ()) in chosen]
