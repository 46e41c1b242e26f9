"""The partition calls from an index and from the metastore that it follows: tables, every call, and the
comparison of both answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from daemon.endpoint.answers.index_answers import IndexAnswers
from daemon.endpoint.answers.table_access import Reason
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.protocol.wire import Message
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from daemon.endpoint.verification.verifier import UNORDERED_IN_HIVE_4, is_same_answer
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines.rules import Rules
from handlers.metastore.addresses import Address
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.partitions.filters.hive_expressions import Expression
from tests.builders.catalog.followed_catalog import FollowedCatalog, catalogs_of
from tests.builders.endpoint.memory_tables import MemoryTables
from tests.builders.endpoint.partition_requests import positional, read_answer, request
from tests.builders.endpoint.scripted_metastore import Outcomes
from tests.builders.partitions.indexed_tables import DEFAULT
from tests.builders.partitions.metastore_and_index import COLUMNS, sixty_rows


ODD_ROWS = [
    ("007", "a b%/c", "2020-06-18"),
    ("5", "x_y", "2020-1-1"),
    ("5", "xzy", "2020-06-19"),
    ("5", "b:c", DEFAULT),
]
"""Values that metastores compare in their own way."""
ADDED_AT_ONCE = 8
"""Derby stores at most 32 KB of an event of Hive 2 and 3."""


@dataclass
class IndexAndMetastore:
    """A metastore, and the responder of an index that follows it."""

    db: str
    catalog: FollowedCatalog
    upstream: Upstream
    responder: IndexAnswers
    outcomes: Outcomes
    expressions: dict[bytes, Expression]
    """What the responder's reader of expressions knows."""
    unordered: frozenset[str] = UNORDERED_IN_HIVE_4
    """Calls for which the metastore defines no order."""

    def compare(self, message: Message) -> Reason | None:
        """Require equal answers; return the reason if the index forwards the call."""
        answer = self.responder.respond(message, self.upstream)
        if answer is None:
            return self.outcomes.reasons.pop()
        theirs = self.upstream.exchange(message)
        assert theirs.header == answer.header
        assert is_same_answer(answer.body, theirs.body, message.name)
        if message.name not in self.unordered:
            assert read_answer(answer) == read_answer(theirs)
        return None

    def names(self, table: str) -> list[str]:
        """Return the names of all partitions."""
        return self.catalog.source.partition_names(self.db, table)

    def values(self, table: str) -> list[list[str]]:
        """Return the values of all partitions."""
        found = self.upstream.exchange(positional("get_partitions", self.db, table, -1))
        return [list(partition.values) for partition in read_answer(found)]


@contextmanager
def responder_of(catalog: FollowedCatalog, uri: str, db: str) -> Iterator[IndexAndMetastore]:
    """Provide the responder of an index that follows the metastore at ``uri``."""
    upstream = Upstream(EndpointSettings(metastores=(Address.parse(uri),)), Transport.BUFFERED)
    outcomes = Outcomes()
    try:
        expressions: dict[bytes, Expression] = {}
        responder = IndexAnswers(MemoryTables(catalog.partitions), outcomes, expressions.get)
        yield IndexAndMetastore(db, catalog, upstream, responder, outcomes, expressions)
    finally:
        upstream.peer.close()


@contextmanager
def indexed_tables(uri: str, db: str, tables: Sequence[str]) -> Iterator[IndexAndMetastore]:
    """Fill tables of a new database: ``plain``, ``odd`` with ``ODD_ROWS``, ``acid`` and ``bucketed``; follow
    them with an index."""
    with catalogs_of(uri) as make:
        catalog = make(Rules(lens=False), partitions=PartitionRules((f"{db}.*",)))
        client = catalog.source
        client.create_database(Database(name=db))
        for name in tables:
            _fill(client, db, name)
        catalog.follow()
        with responder_of(catalog, uri, db) as both:
            yield both
        client.drop_database(db, cascade=True)


def _fill(client: Metastore, db: str, name: str) -> None:
    parameters, external = (ACID, False) if name == "acid" else (None, True)
    keys = [key for key, _ in COLUMNS]
    table = a_table(db, name, partition_keys=keys, external=external, parameters=parameters)
    for key, (_, declared) in zip(table.partitionKeys or [], COLUMNS, strict=True):
        key.type = declared
    if name == "bucketed":
        table.sd.numBuckets, table.sd.bucketCols = 4, ["id"]
    client.create_table(table)
    rows = sixty_rows() if name == "plain" else sixty_rows()[:24]
    rows += ODD_ROWS if name == "odd" else []
    known = client.get_table(db, name)
    for start in range(0, len(rows), ADDED_AT_ONCE):
        some = rows[start : start + ADDED_AT_ONCE]
        client.add_partitions(
            db, name, [a_partition(known, *row, parameters={"numFiles": "1"}) for row in some]
        )


def every_call(db: str, table: str, names: list[str], values: list[list[str]]) -> list[Message]:
    """Return every call in the forms of Hive 2.3, 3.1 and 4.2 clients."""
    one, part = values[7], [values[3][0], "", ""]
    write_ids = f"{db}.{table}:5:9223372036854775807::"
    shuffled = random.Random(5).sample(names, 20)  # noqa: S311 - a test's rows
    catalog = {1: "hive", 2: db, 3: table}
    unselected = {7: False, 8: "", 9: ""}
    return [
        positional("get_partitions_by_filter", db, table, "i > 5 and s = 'a'", -1),
        positional("get_partitions_by_filter", f"@hive#{db}", table.upper(), "", 7),
        positional("get_partitions_by_filter", db, table, None, -1),
        request("get_partitions_by_filter_req", {**catalog, 4: "s like 'a%'", 5: -1, 6: False, 7: "", 8: ""}),
        positional("get_num_partitions_by_filter", db, table, "s != 'b'"),
        positional("get_partition_names", db, table, -1),
        positional("get_partition_names", f"@hive#{db}", table, 9),
        positional("get_partition_names_ps", db, table, part, -1),
        positional("get_partition_names_ps", db, table, ["", DEFAULT, ""], -1),
        request("get_partition_names_ps_req", {**catalog, 4: part, 5: -1, 6: write_ids}),
        positional("get_partitions_by_names", db, table, [*shuffled, "i=1/s=none/d=2020-01-01", shuffled[0]]),
        positional("get_partitions_by_names", db, table, []),
        request(
            "get_partitions_by_names_req",
            {
                1: db,
                2: table,
                3: shuffled,
                4: False,
                5: ["HIVEBUCKET2"],
                6: "hs2",
                7: "hive",
                8: write_ids,
                9: False,
                11: False,
                12: "",
                13: "",
            },
        ),
        request(
            "get_partitions_by_names_req",
            {1: db, 2: table, 3: shuffled, 5: ["HIVEFULLACIDREAD", "HIVEMANAGEDINSERTREAD"]},
        ),
        positional("get_partitions_ps", db, table, part, -1),
        positional("get_partitions_ps_with_auth", db, table, part, 2, "user", ["group"]),
        positional("get_partitions_ps_with_auth", db, table, ["", "", DEFAULT], -1, None, None),
        request(
            "get_partitions_ps_with_auth_req",
            {**catalog, 4: part, 5: -1, 6: "user", 7: ["group"], 8: write_ids, 10: False, 11: "", 12: ""},
        ),
        request("get_partitions_ps_with_auth_req", {2: db, 3: table}),
        positional("get_partition", db, table, one),
        positional("get_partition_with_auth", db, table, one, "user", ["group"]),
        request("get_partition_req", {**catalog, 4: one, 5: write_ids}),
        positional("get_partition_by_name", db, table, names[11]),
        positional("get_partitions", db, table, -1),
        positional("get_partitions", db, table, 13),
        positional("get_partitions_with_auth", db, table, -1, "user", ["group"]),
        request("get_partitions_req", {**catalog, 4: -1, 5: write_ids, **unselected}),
    ]
