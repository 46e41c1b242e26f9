"""A pattern of databases stands for one policy per database, which is found by its name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.config.model import Config
from daemon.config.replicated_databases import ReplicatedDatabases
from daemon.replica.policies import handler_policy
from daemon.service.configuration import config_reader
from tests.builders.daemon.assembly import config_of


ENDS = {"source": "lake", "target": "dr"}


def configured(*, policies: dict[str, object] | None = None, **pattern: object) -> Config:
    clusters = {
        "sources": {
            "lake": {"metastore": ["thrift://a:9083"], "topic": "t", "read_roots": ["file:/w"]},
            "sea": {"metastore": ["thrift://b:9083"], "topic": "u", "read_roots": ["file:/w"]},
        },
        "targets": {"dr": {"metastore": ["thrift://c:9083"]}},
        "kafka": {"bootstrap": "k:9092"},
    }
    all_sales = {**ENDS, "databases": {"include": ["sales*"], "exclude": ["*_tmp"]}, **pattern}
    return config_of({**clusters, "policies": policies or {}, "policy_patterns": {"all": all_sales}})


def test_each_database_that_a_pattern_covers_has_a_policy_with_the_patterns_settings() -> None:
    config = configured(target_database="{database}_r", metadata_only=["big_*"], on_failure="fail")
    policy = config.policy("all.sales_eu")
    assert (policy.source, policy.target, policy.database) == ("lake", "dr", "sales_eu")
    assert (policy.replica_database, policy.metadata_only, policy.on_failure) == (
        "sales_eu_r",
        ["big_*"],
        "fail",
    )
    assert policy.bootstrap == "auto", "nobody has to start the replica of a database that is created later"


@pytest.mark.parametrize(
    "name",
    [
        "all",
        "all.hr",
        "all.sales_tmp",
        "other.sales",
        "sales",
        "all.",
        ".sales",
        "all.sales.x",
        "all.sales/../x",
    ],
)
def test_other_names_have_no_policy(name: str) -> None:
    assert configured().find_policy(name) is None


@pytest.mark.parametrize("database", ["sys", "information_schema"])
def test_hives_own_databases_are_never_covered(database: str) -> None:
    config = configured(databases={"include": ["*"]})
    assert config.find_policy(f"all.{database}") is None
    assert config.find_policy("all.default") is not None
    assert database not in ReplicatedDatabases(config, "lake")


def test_a_policy_of_its_own_takes_precedence_over_a_pattern() -> None:
    config = configured(policies={"eu": {**ENDS, "database": "sales_eu", "target_database": "europe"}})
    assert config.find_policy("all.sales_eu") is None
    assert config.policy("eu").replica_database == "europe"
    assert config.name_on_target("lake", "dr", "sales_eu") == "europe"


def test_the_relay_and_published_timelines_know_databases_by_patterns_too() -> None:
    own = {"hr": {**ENDS, "database": "hr"}}
    config = configured(policies=dict(own), target_database="{database}_r")
    replicated = ReplicatedDatabases(config, "lake")
    assert "hr" in replicated
    assert "sales_of_tomorrow" in replicated
    assert "sales_tmp" not in replicated
    assert "sales_of_tomorrow" not in ReplicatedDatabases(config, "sea")
    assert config.name_on_target("lake", "dr", "sales_eu") == "sales_eu_r"
    assert config.name_on_target("lake", "dr", "hr") == "hr"
    assert config.name_on_target("sea", "dr", "sales_eu") == "sales_eu"


def test_the_policies_of_a_database_are_those_of_the_same_source_and_target() -> None:
    own: dict[str, object] = {
        "eu": {**ENDS, "database": "sales_eu"},
        "hr": {**ENDS, "database": "hr", "target_database": "h"},
    }
    config = configured(policies=own, target_database="{database}_r")

    def found(source: str, target: str, database: str) -> list[tuple[str, str]]:
        policies = config.find_policies(source, target, database)
        return [(name, policy.replica_database) for name, policy in policies]

    assert found("lake", "dr", "hr") == [("hr", "h")]
    assert found("lake", "dr", "sales_us") == [("all.sales_us", "sales_us_r")]
    assert found("lake", "dr", "sales_eu") == [("eu", "sales_eu")]
    assert found("sea", "dr", "sales_us") == found("lake", "dr", "sales_tmp") == []
    assert found("lake", "dr", "sales" + "x" * 122) == [], "its name on the target would be too long"
    views = handler_policy(config, "hr")
    assert views.find_target("sales_us", "t") == "sales_us_r"
    assert views.find_target("hr", None) == "h"
    assert views.find_target("sys", "tbls") == "sys"
    assert views.find_target("elsewhere", "t") is None


def problems_of(directory: Path, **pattern: object) -> dict[str, str]:
    """Return the problems of a file whose pattern has these settings: reasons by key."""
    file = directory / "tideline.yaml"
    ends = {**ENDS, "databases": {"include": ["a"]}}
    file.write_text(
        json.dumps(
            {
                "sources": {"lake": {"metastore": "thrift://a:9083", "topic": "t"}},
                "targets": {"dr": {"metastore": "thrift://c:9083"}},
                "policy_patterns": {"all": {**ends, **pattern}},
                "kafka": {"bootstrap": "k:9092"},
            }
        )
    )
    return {found.key: found.reason for found in config_reader().read(file, {}).problems}


@pytest.mark.parametrize(
    ("setting", "key", "reason"),
    [
        ({"target_database": "copy"}, "target_database", "must contain {database} once"),
        ({"target_database": "{database}_{database}"}, "target_database", "must contain {database} once"),
        ({"target_database": "{database}-r"}, "target_database", "must contain {database} once"),
        ({"databases": {"include": []}}, "databases.include", "list should have at least 1 item"),
        ({"databases": {"include": ["A*"]}}, "databases.include.0", "must be a database pattern"),
        ({"source": "lak"}, "source", "unknown source"),
        (
            {"external": {"every_s": 5}},
            "external_base",
            "must be set if the files of external tables are copied",
        ),
        ({"database": "a"}, "database", "unknown"),
    ],
)
def test_wrong_settings_of_a_pattern_are_refused_with_the_rule(
    tmp_path: Path, setting: dict[str, object], key: str, reason: str
) -> None:
    problems = problems_of(tmp_path, **setting)
    assert problems.get(f"policy_patterns.all.{key}", "").startswith(reason), problems


def test_the_source_of_a_pattern_needs_read_roots(tmp_path: Path) -> None:
    assert set(problems_of(tmp_path)) == {"sources.lake.read_roots"}
