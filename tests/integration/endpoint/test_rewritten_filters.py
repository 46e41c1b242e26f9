"""Rewritten filters on real metastores of Hive 4.2: they select by the order of bytes on PostgreSQL, and lose
nothing on Derby."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from daemon.endpoint.filter_texts import FilterTexts
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.hive.servers import Metastore as MetastoreServer
from dev.stack.hive.settings import Database as MetastoreDatabase
from dev.stack.servers.databases import DATABASE, HOST, PASSWORD, USER, PostgreSQL
from handlers.metastore.addresses import Address
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.partition_requests import positional, read_answer
from tests.builders.partitions.text_databases import BY_BYTES


TEXTS = (
    "a",
    "ab",
    "a ",
    "a  ",
    " a",
    "a b",
    "x_y",
    "xzy",
    "50%",
    "500",
    "a\\b",
    "it's",
    "\u65e5",
    "\uff3a",
    "\U0001f600",
    "2024-01-01",
)
CONSTANTS = ("a", "a ", "x_y", "50%", "\uff3a", "\U0001f600", "", "it's", "nosuch ")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
LISTED = (
    '(s) not in ("a", "x_y", "50%")',
    's not between "a" and "it\'s"',
    "s != \"a\" and (s < 'b' or hr = 7)",
)


class Filters:
    """The filters of a connection to a metastore, on a table whose second column is ``hr=07``."""

    def __init__(self, uri: str, db: str) -> None:
        self._db = db
        self.upstream = Upstream(EndpointSettings(metastores=(Address.parse(uri),)), Transport.BUFFERED)
        self._texts = FilterTexts(EndpointMetrics(CollectorRegistry()))

    def find(self, text: str) -> set[str]:
        """Return the texts that a filter finds through the endpoint."""
        message = positional("get_partitions_by_filter", self._db, "t", text, -1)
        translated = self._texts.translate(message, self.upstream)
        answer = read_answer(self.upstream.exchange(self._texts.order(translated, self.upstream)))
        return {partition.values[0] for partition in answer}


def fill(uri: str, db: str) -> None:
    with closing(Metastore([uri])) as client:
        client.create_database(Database(name=db))
        table = a_table(db, "t", partition_keys=("s", "hr"), external=True)
        assert table.partitionKeys is not None
        table.partitionKeys[1].type = "int"
        client.create_table(table)
        known = client.get_table(db, "t")
        client.add_partitions(db, "t", [a_partition(known, text, "07") for text in TEXTS])


def compare(uri: str, db: str, *, is_exact: bool) -> None:
    fill(uri, db)
    filters = Filters(uri, db)
    with closing(filters.upstream.peer):
        assert filters.find("hr = 7") == set(TEXTS)
        assert filters.find('s like "a.*" and hr = 7') == {text for text in TEXTS if text.startswith("a")}
        for operator, constant in itertools.product(OPERATORS, CONSTANTS):
            text = f's {operator} "{constant}"'
            found, expected = filters.find(text), {one for one in TEXTS if BY_BYTES.finds(text, one)}
            assert found == expected if is_exact else found >= expected, text
        for text in LISTED:
            plain = text.replace("hr = 7", 's >= ""')
            found, expected = filters.find(text), {one for one in TEXTS if BY_BYTES.finds(plain, one)}
            assert found == expected if is_exact else found >= expected, text


def test_a_metastore_on_derby_loses_no_partition(metastore: MetastoreServer, database: str) -> None:
    compare(metastore.uri, database, is_exact=False)


@pytest.fixture
def metastore_on_postgres(tmp_path: Path) -> Iterator[MetastoreServer]:
    # PostgreSQL outside pytest's directory, which only root can read if root runs the tests.
    with (
        tempfile.TemporaryDirectory(prefix="tideline-", ignore_cleanup_errors=True) as directory,
        ExitStack() as stack,
    ):
        with start_or_skip("metastore on PostgreSQL"):
            server = stack.enter_context(PostgreSQL(Path(directory)))
            url = f"jdbc:postgresql://{HOST}:{server.port}/{DATABASE}"
            metastore = MetastoreServer(tmp_path, database=MetastoreDatabase.postgres(url, USER, PASSWORD))
            stack.callback(metastore.stop)
            metastore.start()
        yield metastore


@pytest.mark.long
def test_a_metastore_on_postgresql_selects_by_bytes(
    metastore_on_postgres: MetastoreServer, database: str
) -> None:
    compare(metastore_on_postgres.uri, database, is_exact=True)
