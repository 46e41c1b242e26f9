"""``tideline config check --live`` warns of tables of Spark whose rows would not follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from daemon.config.model import Config
from daemon.replica.external.policy_cycles import spark_problems
from handlers.structs.objects import Table
from state.errors import MetastoreUnavailable, NotFound, ServerFault, TidelineError
from tests.builders.replication.replay_events import a_table
from tests.builders.replication.spark_tables import a_spark_table


class Source:
    """A metastore with one table of Spark in each format, a view of Spark, and a table of Hive."""

    def __init__(self) -> None:
        created = {"spark.sql.create.version": "4.0.0"}
        self.tables = {
            "data_source": a_spark_table("data_source"),
            "hive_format": a_table("hive_format", kind="EXTERNAL_TABLE", parameters=created),
            "view": a_table("view", kind="VIRTUAL_VIEW", parameters=created, location=None),
            "hive": a_table("hive"),
        }

    def table_names(self, db: str) -> list[str]:
        if db == "none":
            raise NotFound("no such database")
        return list(self.tables)

    def get_tables(self, _db: str, names: Sequence[str]) -> list[Table]:
        return [self.tables[name] for name in names]

    def close(self) -> None:
        """Do nothing."""


def find(**policy: Any) -> list[str]:
    config = Config.model_validate(
        {
            "sources": {"s": {"metastore": ["thrift://s:1"], "topic": "t", "read_roots": ["file:/w"]}},
            "targets": {"t": {"metastore": ["thrift://t:1"]}},
            "policies": {"p": {"source": "s", "target": "t", "database": "shop", **policy}},
        }
    )
    return [str(each) for each in spark_problems(config, lambda _: cast("Any", Source()))]


def test_a_policy_without_cycles_is_warned_of_the_tables_of_spark() -> None:
    (problem,) = find()
    assert problem.startswith("policy p: policies.p.external_base: Spark writes rows without events")
    assert "2 tables, such as data_source" in problem
    (problem,) = find(external_base="file:/base", external={"every_s": 0})
    assert problem.startswith("policy p: policies.p.external.every_s: ")


def test_a_policy_with_cycles_or_without_rows_of_spark_is_not() -> None:
    assert find(external_base="file:/base") == []
    assert find(tables={"exclude": ["data_source", "hive_format"]}) == []
    assert find(metadata_only=["*"]) == []
    assert find(database="none") == []


@pytest.mark.parametrize(
    ("error", "reasons"),
    [(MetastoreUnavailable("down"), []), (ServerFault("internal error"), ["internal error"])],
)
def test_a_failure_of_the_source_is_a_problem_unless_its_own_check_reports_it(
    error: TidelineError, reasons: list[str]
) -> None:
    def connect(_: Sequence[str]) -> Any:
        raise error

    config = Config.model_validate(
        {
            "sources": {"s": {"metastore": ["thrift://s:1"], "topic": "t", "read_roots": ["file:/w"]}},
            "targets": {"t": {"metastore": ["thrift://t:1"]}},
            "policies": {"p": {"source": "s", "target": "t", "database": "shop"}},
        }
    )
    assert [(each.reason, each.warning) for each in spark_problems(config, connect)] == [
        (reason, False) for reason in reasons
    ]
