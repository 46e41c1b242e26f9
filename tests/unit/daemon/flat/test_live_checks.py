"""The live check of the metastores of flat tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.config.model import Config
from daemon.flat.checks import flat_problems
from handlers.metastore.calls import HiveVersion
from state.errors import ConfigError, MetastoreUnavailable, NotFound
from tests.builders.daemon.assembly import config_of


HIVE_4 = HiveVersion(4, 2)


class FakeMetastore:
    """A metastore that knows some databases."""

    def __init__(self, *databases: str, hive_version: HiveVersion = HIVE_4, away: bool = False) -> None:
        self.databases = databases
        self._hive_version = hive_version
        self._away = away
        self.closed = 0

    @property
    def hive_version(self) -> HiveVersion:
        if self._away:
            raise MetastoreUnavailable("no metastore could be reached")
        return self._hive_version

    def get_database(self, name: str) -> object:
        if name not in self.databases:
            raise NotFound("no such database", name=name)
        return name

    def close(self) -> None:
        self.closed += 1


def config(**changes: object) -> Config:
    table = {
        "table": "web.flat",
        "raw_table": "web.raw",
        "location": "/flat",
        "source": {"kind": "directory", "path": str(Path(__file__).parent)},
        "event_time": {"key": "t"},
        "cluster": "dr",
    }
    return config_of(
        {"targets": {"dr": {"metastore": ["thrift://t:9083"]}}, "flat": {"events": table | changes}}
    )


def is_installed() -> None:
    """Stands for a machine with everything that Spark needs."""


@pytest.mark.parametrize(
    ("metastore", "reasons"),
    [
        (FakeMetastore("web"), []),
        (FakeMetastore("other"), ["unknown database"]),
        (FakeMetastore("web", hive_version=HiveVersion(3, 1)), ["must be in a metastore of Hive 4 or later"]),
        (FakeMetastore(away=True), ["no metastore could be reached"]),
    ],
)
def test_problems_that_a_driver_would_find_late_are_reported_at_once(
    metastore: FakeMetastore, reasons: list[str]
) -> None:
    connected: list[Sequence[str]] = []

    def connect(uris: Sequence[str]) -> FakeMetastore:
        connected.append(uris)
        return metastore

    assert [problem.reason for problem in flat_problems(config(), connect, is_installed)] == reasons
    assert list(map(tuple, connected)) == [("thrift://t:9083",)]
    assert metastore.closed == 1


def test_a_table_in_sparks_own_catalog_needs_no_metastore() -> None:
    assert flat_problems(config(cluster=None), lambda _: pytest.fail("it connected"), is_installed) == []


def test_a_missing_landing_directory_is_reported(tmp_path: Path) -> None:
    source = {"kind": "directory", "path": f"file:{tmp_path}/landing"}
    checked = config(cluster=None, source=source)
    assert [(each.key, each.reason) for each in flat_problems(checked, None, is_installed)] == [
        ("flat.events.source.path", "unknown directory")
    ]
    (tmp_path / "landing").mkdir()
    assert flat_problems(checked, None, is_installed) == []


def test_a_landing_directory_that_only_spark_can_reach_is_not_checked() -> None:
    elsewhere = config(cluster=None, source={"kind": "directory", "path": "viewfs://c/in"})
    assert flat_problems(elsewhere, None, is_installed) == []


def test_what_spark_lacks_on_this_machine_is_reported_once_and_only_if_a_table_has_a_writer() -> None:
    def require() -> None:
        raise ConfigError("Spark needs programs that PATH does not contain: chmod", hint="Add them.")

    assert list(map(str, flat_problems(config(cluster=None), None, require))) == [
        "flat tables: Spark needs programs that PATH does not contain: chmod (add them)"
    ]
    unwritten = config_of({"flat": {"events": {"table": "web.flat", "raw_table": "web.raw"}}})
    assert flat_problems(unwritten, None, require) == []
