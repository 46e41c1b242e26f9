"""From the configuration to rules and facts, and from rules to the tables that have timelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from daemon.catalog.settings import CATALOG
from daemon.config.model import Config
from daemon.partitions.branch import partition_follower
from daemon.service.configuration import config_reader
from daemon.timelines.settings import facts_of, rules_of
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.table_info import TableInfo, parse_partition_name
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.errors import MalformedEvent
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import TIME_COLUMNS
from state.timelines.time_ranges import TimeRange


Read = Callable[[str], tuple[Config | None, dict[str, str]]]
SOURCE = """\
sources: {lake: {metastore: [thrift://a:9083], topic: t}}
kafka: {bootstrap: "k:9092"}
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(text: str) -> tuple[Config | None, dict[str, str]]:
        path = tmp_path / "tideline.yaml"
        path.write_text(SOURCE + dedent(text))
        loaded = config_reader().read(path, {})
        return loaded.config, {problem.key: problem.reason for problem in loaded.problems}

    return reader


def test_rules_and_settings_are_read_from_the_file(read: Read) -> None:
    config, problems = read(
        """
        catalog:
          lake:
            lens: false
            exclude: ["*.tmp_*"]
            rules:
              weeks:
                {tables: ["mart.*"], columns: [dt], periods: [weekly, DAILY], iso_weeks: true, form: ranges,
                 jump_max: 9, sentinels: ["1900-01-01"]}
        facts:
          sales: {source: lake, tables: {mart.days: {}, mart.hours: {start: "2015-02", end: "2016"}}}
        """
    )
    assert problems == {}
    assert config is not None
    periods = (UpdatePeriod.WEEKLY_ISO, UpdatePeriod.DAILY)
    sentinels = ("1900-01-01",)
    rule = Rule(("mart.*",), ("dt",), periods, iso_weeks=True, form="ranges", jump_max=9, sentinels=sentinels)
    assert rules_of(CATALOG.of(config)["lake"]) == Rules((rule,), lens=False, exclude=("*.tmp_*",))
    (fact,) = facts_of(config, "lake").values()
    window = TimeRange.parse("2015-02", "2016")
    assert [table.table for table in fact.tables] == ["mart.days", "mart.hours"]
    assert (fact.tables[1].start_s, fact.tables[1].end_s) == (window.start_s, window.end_s)
    assert facts_of(config, "pond") == {}


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("catalog: {pond: {}}", "catalog.pond", "must be a source"),
        ("catalog: {lake: {publish: {target: dr}}}", "catalog.lake.publish.target", "must be a target"),
        ("facts: {f: {source: lake, tables: {a.b: {}}}}", "facts.f.source", "must have a catalog"),
        (
            "catalog: {lake: {rules: {r: {tables: [x]}}}}",
            "catalog.lake.rules.r.tables.0",
            "must be a pattern",
        ),
        (
            "catalog: {lake: {rules: {r: {tables: [a.b], periods: [NIGHTLY]}}}}",
            "catalog.lake.rules.r.periods.0",
            "must be an update period",
        ),
        (
            "catalog: {lake: {rules: {r: {tables: [a.b], form: bitmap}}}}",
            "catalog.lake.rules.r.form",
            "must be a storage form",
        ),
        (
            "catalog: {lake: {rules: {r: {tables: [a.b], columns: ['a b']}}}}",
            "catalog.lake.rules.r.columns.0",
            "must be a column name",
        ),
        (
            "catalog: {lake: {}}\nfacts: {f: {source: lake, tables: {b: {}}}}",
            "facts.f.tables",
            "must be a table",
        ),
        (
            "catalog: {lake: {}}\nfacts: {f: {source: lake, tables: {a.b: {start: soon}}}}",
            "facts.f.tables.a.b.start",
            "must be a partition value",
        ),
    ],
)
def test_an_invalid_setting_is_reported_with_its_key(read: Read, text: str, key: str, reason: str) -> None:
    _, problems = read(text)
    assert any(found.startswith(key) and reason in shown for found, shown in problems.items()), problems


def test_a_source_without_event_ids_has_no_catalog(tmp_path: Path) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(
        SOURCE.replace("topic: t", "topic: t, format: apiary, relay: {enabled: false}")
        + "catalog: {lake: {}}\n"
    )
    (problem,) = config_reader().read(path, {}).problems
    assert (problem.key, "no event ids" in problem.reason) == ("catalog.lake", True)


def table(name: str = "mart.days", columns: str = "dt,country", **parameters: str) -> TableInfo:
    return TableInfo(name, tuple(columns.split(",")) if columns else (), parameters)


LENS = {TIME_COLUMNS: "Dt,gone"}


def test_the_first_matching_rule_applies_and_lens_properties_precede_values() -> None:
    rules = Rules((Rule(("mart.*",), ("country",)), Rule(("*.*",))))
    first = rules.settings(table(**LENS))
    assert first is not None
    assert first.time_columns == ("country",)
    second = rules.settings(table("other.t", **LENS))
    assert second is not None
    assert second.time_columns == ("Dt",), "in the spelling of the property"
    assert rules.settings(table("other.t")) is None
    assert rules.decides_by_values(table("other.t"))
    assert not rules.decides_by_values(table("other.t", **LENS))
    found = rules.detect(table("other.t"), [{"dt": "2015-01-01", "country": "de"}])
    assert found is not None
    assert found.time_columns == ("dt",)


def test_tables_without_a_rule_or_partitions_or_that_are_excluded_are_not_accepted() -> None:
    rules = Rules((Rule(("mart.*",), ("dt",)),), exclude=("mart.tmp_*",))
    assert rules.accepts(table())
    assert rules.accepts(table("other.t", **LENS))
    assert not rules.accepts(table("other.t"))
    assert not rules.accepts(table(columns=""))
    assert not rules.accepts(table("mart.tmp_days"))
    assert not rules.accepts(table(columns="country")), "it has no such column"
    assert not Rules((), lens=False).accepts(table(**LENS))


def test_a_partition_name_is_parsed_as_hive_writes_it() -> None:
    seen = parse_partition_name(("dt", "x"), "dt=2015-01-01 00%3A00/X=a%2Fb=%25é")
    assert seen.spec == {"dt": "2015-01-01 00:00", "x": "a/b=%é"}
    for name in ("dt=1", "x=1/dt=2", "dt", ""):
        with pytest.raises(MalformedEvent):
            parse_partition_name(("dt", "x"), name)


def test_the_partition_index_is_off_without_its_section(read: Read) -> None:
    config, problems = read("catalog: {lake: {}}")
    assert (problems, config is not None) == ({}, True)
    assert config is not None
    assert CATALOG.of(config)["lake"].partitions is None
    config, _ = read('catalog: {lake: {partitions: {exclude: ["*.tmp_*"]}}}')
    assert config is not None
    chosen = CATALOG.of(config)["lake"].partitions
    assert chosen is not None
    assert (chosen.tables, chosen.exclude, chosen.store) == (["*.*"], ["*.tmp_*"], "sqlite")
    follower = partition_follower(CATALOG.of(config)["lake"])
    assert follower.accepts(TableInfo("mart.sales", ("dt",), {}))
    assert not follower.accepts(TableInfo("mart.tmp_sales", ("dt",), {}))
    assert not follower.accepts(TableInfo("mart.plain", (), {}))


@pytest.mark.parametrize(
    ("partitions", "key"),
    [
        ("{store: hbase}", "partitions"),
        ("{hbase: {host: h}}", "partitions"),
        ("{store: hbase, hbase: {host: h, table: 'a b'}}", "partitions.hbase.table"),
        ("{tables: [mart]}", "partitions.tables.0"),
        ("{store: mongo}", "partitions.store"),
    ],
)
def test_invalid_settings_of_the_partition_index_are_reported(read: Read, partitions: str, key: str) -> None:
    _, problems = read(f"catalog: {{lake: {{partitions: {partitions}}}}}")
    assert list(problems) == [f"catalog.lake.{key}"], problems


def test_a_table_that_is_excluded_later_loses_its_timelines_also_where_the_index_still_follows_it() -> None:
    source = MemorySource()
    source.create("a")
    source.add("a", "2015-01-01", "x")
    store = MemoryStore()
    found = []
    for exclude in ((), (f"{DB}.*",)):
        metastore: Any = source
        follower = TimelineFollower(Rules((Rule((f"{DB}.*",), ("dt",)),), lens=False, exclude=exclude))
        followers: list[Any] = [follower, PartitionFollower(PartitionRules((f"{DB}.*",)))]
        projection = CatalogProjection(source_name="s", source=metastore, store=store, followers=followers)
        projection.open()
        projection.load_all()
        found.append(follower.timelines.tables())
    assert found == [[f"{DB}.a"], []]
