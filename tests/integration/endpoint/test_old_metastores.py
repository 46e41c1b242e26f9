"""The partition calls from an index in front of real metastores of Hive 2.3 and 3.1:
equal, field by field, or forwarded.

These servers send partitions without a write id, do not know the requests of Hive 4, and define no order of
the partitions of a partial specification. Hive 2.3 does not know catalogs either, but its version is the same
as that of 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.endpoint.answers.partition_calls import CALLS_OF_HIVE_4
from daemon.endpoint.answers.table_access import Reason
from daemon.endpoint.protocol.wire import Message
from daemon.endpoint.verification.verifier import UNORDERED
from dev.stack.hive.old_metastore import OldMetastore
from tests.builders.components.availability import start_or_skip
from tests.builders.endpoint.index_and_metastore import IndexAndMetastore, every_call, indexed_tables
from tests.builders.endpoint.partition_requests import positional
from tests.builders.partitions.filter_contract import DAYS, NUMBERS, WORDS
from tests.builders.partitions.indexed_tables import Condition, conditions
from tests.builders.partitions.metastore_and_index import TEXTS


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

TABLES = ("plain", "odd", "bucketed")
live = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=["2.3", "3.1"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def both(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexAndMetastore]:
    server = OldMetastore(tmp_path_factory.mktemp("old"), version)
    with start_or_skip(f"metastore of Hive {version}"):
        server.start()
    try:
        with indexed_tables(server.uri, "calls", TABLES) as both:
            both.unordered = UNORDERED
            yield both
    finally:
        server.stop()


def why_forwarded(message: Message, version: str) -> Reason | None:
    """Return the reason to forward one of ``every_call``."""
    if message.name in CALLS_OF_HIVE_4 or (version == "2.3" and b"@hive#" in message.body):
        return Reason.REFUSED
    takes_some = message.name == "get_partitions_ps_with_auth" and b"user" in message.body
    return Reason.NOT_CERTAIN if takes_some else None


@pytest.mark.parametrize("table", TABLES)
def test_every_call_that_the_server_knows_has_its_answer(
    both: IndexAndMetastore, version: str, table: str
) -> None:
    for message in every_call(both.db, table, both.names(table), both.values(table)):
        assert both.compare(message) == why_forwarded(message, version), message.name


@given(conditions((NUMBERS, WORDS, DAYS)), st.sampled_from([-1, 1, 5, 1000]))
@live
def test_any_filter_has_the_answer_of_the_metastore(
    both: IndexAndMetastore, condition: Condition, most: int
) -> None:
    for table in ("plain", "odd"):
        reason = both.compare(positional("get_partitions_by_filter", both.db, table, condition.text, most))
        assert reason in {None, Reason.NOT_CERTAIN}
    both.compare(positional("get_num_partitions_by_filter", both.db, "plain", condition.text))


@given(st.tuples(*(st.sampled_from(["", "x_y", *texts]) for texts in TEXTS)), st.sampled_from([-1, 3]))
@live
def test_any_partial_specification_has_the_answer_of_the_metastore(
    both: IndexAndMetastore, values: tuple[str, ...], most: int
) -> None:
    for table in ("plain", "odd"):
        for name in ("get_partition_names_ps", "get_partitions_ps", "get_partitions_ps_with_auth"):
            both.compare(positional(name, both.db, table, values, most))
