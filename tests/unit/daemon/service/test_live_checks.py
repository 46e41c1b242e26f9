"""The live check reports badly configured metastores; the integration tests check good ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from daemon.config.model import Config
from daemon.sources.checks.hive_settings import duration_s
from daemon.sources.checks.live_checks import live_problems
from handlers.metastore.calls import HiveVersion
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import Database
from state.errors import MetastoreUnavailable, Refused, Unsupported
from tests.builders.daemon.assembly import config_of


HIVE_4 = HiveVersion(4, 2)

GOOD = {
    "metastore.transactional.event.listeners": "org.apache.hive.hcatalog.listener.DbNotificationListener",
    "hive.metastore.dml.events": "true",
    "metastore.repl.cm.enabled": "true",
    "metastore.repl.event.db.listener.timetolive": "10d",
    "metastore.repl.cm.retain": "240h",
    "metastore.repl.txn.timeout": "11d",
}


class Answers:
    """A metastore that answers only the calls of the check."""

    def __init__(
        self, settings: dict[str, str], *, hive_version: HiveVersion = HIVE_4, newest: int = 9
    ) -> None:
        self.settings = settings
        self._hive_version = hive_version
        self.newest = newest
        self.refuses_log = False
        self.away = False
        self.databases: dict[str, Database] = {}
        self.events: list[NotificationEvent] = []
        self.reports_files = False

    @property
    def hive_version(self) -> HiveVersion:
        if self.away:
            raise MetastoreUnavailable("no metastore could be reached", address="thrift://a:9083")
        return self._hive_version

    def config_value(self, key: str, default: str = "") -> str:
        if self.away:
            raise MetastoreUnavailable("no metastore could be reached", address="thrift://a:9083")
        return self.settings.get(key, default)

    def current_event_id(self) -> int:
        return self.newest

    def next_events(self, after: int, limit: int) -> Sequence[NotificationEvent]:
        if self.refuses_log:
            raise Refused("not authorised")
        return [event for event in self.events if event.eventId > after][:limit]

    def database_names(self) -> list[str]:
        return list(self.databases)

    def get_database(self, name: str) -> Database:
        return self.databases[name]

    def write_events(self, txn_id: int) -> Sequence[WriteEventInfo]:  # noqa: ARG002 - the port's name
        if not self.reports_files:
            raise Unsupported("Hive 3.1 has no get_all_write_event_info")
        return []

    def close(self) -> None:
        pass


def config() -> Config:
    """Return a configuration with one source and one target, without Kafka: the integration tests check
    topics."""
    return config_of(
        {
            "sources": {},
            "targets": {"dr": {"metastore": ["thrift://t:9083"]}},
        }
    )


def with_source(monkeypatch: pytest.MonkeyPatch) -> Config:
    for check in ("check_topic", "check_lag"):
        monkeypatch.setattr(f"daemon.sources.checks.live_checks.{check}", lambda *_: iter(()))
    sources = {"lake": {"metastore": ["thrift://s:9083"], "topic": "t", "read_roots": ["file:/warehouse"]}}
    return config_of({**config().model_dump(), "sources": sources})


def keys(source: Answers, target: Answers, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, bool]]:
    ends = {"thrift://s:9083": source, "thrift://t:9083": target}
    found = live_problems(with_source(monkeypatch), lambda uris: ends[uris[0]])
    return {(problem.key, problem.warning) for problem in found}


def test_correctly_configured_systems_have_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys(Answers(GOOD), Answers(GOOD), monkeypatch) == set()


@pytest.mark.parametrize(
    ("changes", "key", "warning"),
    [
        ({"metastore.transactional.event.listeners": ""}, "metastore.transactional.event.listeners", False),
        ({"hive.metastore.dml.events": "false"}, "hive.metastore.dml.events", True),
        ({"metastore.repl.cm.enabled": "false"}, "metastore.repl.cm.enabled", True),
        ({"metastore.repl.cm.retain": "24h"}, "metastore.repl.cm.retain", True),
        (
            {"metastore.notification.parameters.exclude.patterns": "x.*"},
            "metastore.notification.parameters.exclude.patterns",
            True,
        ),
    ],
)
def test_every_wrong_setting_of_a_source_is_a_problem(
    changes: dict[str, str], key: str, warning: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(Answers(GOOD | changes), Answers(GOOD), monkeypatch) == {(key, warning)}


def test_transactions_that_time_out_before_the_log_does_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Answers(GOOD | {"metastore.repl.txn.timeout": "2d"})
    assert keys(Answers(GOOD), target, monkeypatch) == {("metastore.repl.txn.timeout", True)}


def test_a_source_without_write_ids_is_a_warning_and_an_old_target_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Answers(GOOD, hive_version=HiveVersion(2, 3))
    assert keys(old, Answers(GOOD), monkeypatch) == {("Hive version", True)}
    assert keys(Answers(GOOD), old, monkeypatch) == {("Hive version", False)}


def test_directories_of_the_cluster_that_policies_may_not_read_are_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = with_source(monkeypatch)
    policies = {"shop": {"source": "lake", "target": "dr", "database": "shop", "target_database": "shop"}}
    source = Answers(
        GOOD
        | {
            "metastore.warehouse.dir": "/warehouse/managed",
            "metastore.warehouse.external.dir": "file:/external",
            "metastore.repl.cmrootdir": "hdfs://other/warehouse",
        }
    )

    def warned(config: Config) -> list[tuple[str, bool]]:
        problems = live_problems(config, lambda _: source)
        return [(each.key, each.warning) for each in problems if "read_roots" in each.reason]

    assert warned(config) == [], "no policy reads its files"
    assert warned(config_of({**config.model_dump(), "policies": policies})) == [
        ("metastore.warehouse.external.dir", True),
        ("metastore.repl.cmrootdir", True),
    ]


def test_the_retention_of_the_log_has_another_name_before_hive_4(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {key: value for key, value in GOOD.items() if "timetolive" not in key}
    settings |= {"metastore.event.db.listener.timetolive": "2d", "metastore.repl.cm.retain": "24h"}
    old = Answers(settings, hive_version=HiveVersion(3, 1))
    assert keys(old, Answers(GOOD), monkeypatch) == {("metastore.repl.cm.retain", True)}


def test_an_unreadable_log_and_an_empty_one_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Answers(GOOD, newest=0)
    assert keys(source, Answers(GOOD), monkeypatch) == {("notification log", True)}
    source.refuses_log = True
    source.newest = 5
    assert keys(source, Answers(GOOD), monkeypatch) == {("notification log", False)}


def test_all_unavailable_systems_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = Answers(GOOD), Answers(GOOD)
    source.away = target.away = True
    assert keys(source, target, monkeypatch) == {
        ("sources.lake.metastore", False),
        ("targets.dr.metastore", False),
    }


def test_an_unreachable_metastore_is_reported_with_its_addresses_and_the_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = with_source(monkeypatch)
    config = config_of(
        {**config.model_dump(), "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}}, "sources": {}}
    )
    (found,) = live_problems(config)
    assert "thrift://127.0.0.1:1: Connection refused" in found.reason
    assert found.hint.startswith("check that the metastore runs")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10d", 864000),
        ("240h", 864000),
        ("86400s", 86400),
        ("300", 300),
        ("5 min", 300),
        ("500ms", 0.5),
        ("2 days", 172800),
    ],
)
def test_durations_of_hive_are_parsed(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1d", "1 fortnight", "1e9d"])
def test_an_invalid_duration_is_zero(text: str) -> None:
    assert duration_s(text) == 0
