"""Databases that a pattern covers get a replica: those known from an earlier run at once, others when they
are found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.config.model import Config
from daemon.consumer.projection import ProjectionStatus
from daemon.process.loops.heartbeat import Pulse
from daemon.process.loops.loop import Job
from daemon.replica import loop
from daemon.replica.loop import build_projection
from daemon.replica.metrics import ReplicaMetrics
from daemon.replica.policies import STATE_KIND
from daemon.replica.replicas import DatabaseDiscovery, Replicas, known_policies
from daemon.replica.shared import SharedResources
from daemon.replica.status.policy_sections import POLICY_SECTIONS
from daemon.sources.connections import CallMetrics
from daemon.state_directory.directory import open_state
from daemon.status.model import ENDED
from handlers.files.copying.pool import CopyPool
from handlers.replication.observer import SilentObserver
from handlers.replication.projection import ReplicationProjection
from state.errors import ConfigError, MetastoreUnavailable
from tests.builders.daemon.assembly import config_of, parts_of, runtime_of


def configured(
    state_dir: Path, *, policies: dict[str, object] | None = None, **patterns: dict[str, object]
) -> Config:
    ends = {"source": "lake", "target": "dr"}
    return config_of(
        {
            "sources": {
                "lake": {"metastore": ["thrift://127.0.0.1:1"], "topic": "t", "read_roots": ["file:/w"]}
            },
            "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}},
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "state": {"dir": str(state_dir)},
            "policies": policies or {},
            "policy_patterns": {name: {**ends, **pattern} for name, pattern in patterns.items()},
        }
    )


SALES: dict[str, object] = {
    "databases": {"include": ["sales*"], "exclude": ["*_tmp"]},
    "target_database": "{database}_r",
}


@dataclass
class Source:
    """A metastore that lists databases, or fails."""

    databases: list[str] = field(default_factory=list)
    error: Exception | None = None

    def database_names(self) -> list[str]:
        if self.error is not None:
            raise self.error
        return self.databases


def test_a_database_that_is_found_is_started_once(tmp_path: Path) -> None:
    started: list[str] = []
    discovery = DatabaseDiscovery(configured(tmp_path, all=SALES), "all", started.append)
    source = Source(["default", "hr", "sales_eu", "sales_tmp"])
    discovery.look(source)
    discovery.look(source)
    assert started == ["all.sales_eu"]
    source.databases.append("sales_us")
    discovery.look(source)
    assert started == ["all.sales_eu", "all.sales_us"]


def test_a_source_that_cannot_be_reached_ends_the_look_and_nothing_is_forgotten(tmp_path: Path) -> None:
    started: list[str] = []
    discovery = DatabaseDiscovery(configured(tmp_path, all=SALES), "all", started.append)
    discovery.look(Source(["sales"]))
    with pytest.raises(MetastoreUnavailable):
        discovery.look(Source(error=MetastoreUnavailable("no answer")))
    discovery.look(Source(["sales", "sales_b"]))
    assert started == ["all.sales", "all.sales_b"]


def test_a_database_whose_target_is_taken_is_reported_after_all_others_were_started(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        policies={"own": {"source": "lake", "target": "dr", "database": "x", "target_database": "sales_b_r"}},
        all=SALES,
    )
    jobs: list[Job] = []
    replicas = replicas_of(config)
    replicas.add("own", jobs.append)
    discovery = DatabaseDiscovery(config, "all", lambda name: replicas.add(name, jobs.append))
    with pytest.raises(ConfigError, match="is already the target of policy 'own'") as refused:
        discovery.look(Source(["sales_a", "sales_b", "sales_c"]))
    assert refused.value.context["value"] == "sales_b_r"
    assert [job.name for job in jobs] == [
        "replication:own",
        "replication:all.sales_a",
        "replication:all.sales_c",
    ]
    assert [part.target for part in replicas.projections()] == [
        "dr/sales_b_r",
        "dr/sales_a_r",
        "dr/sales_c_r",
    ]


def replicas_of(config: Config) -> Replicas:
    runtime = runtime_of(config)
    return Replicas(runtime, ReplicaMetrics(runtime.registry, runtime.projections))


def test_a_replica_that_is_there_is_not_started_again(tmp_path: Path) -> None:
    replicas = replicas_of(configured(tmp_path, all=SALES))
    jobs: list[Job] = []
    replicas.add("all.sales", jobs.append)
    replicas.add("all.sales", jobs.append)
    assert len(jobs) == len(replicas.all) == 1


def test_a_policy_that_verifies_has_a_sampler_for_each_database(tmp_path: Path) -> None:
    sampled = {**SALES, "verification": {"tables_per_hour_share": 1}}
    replicas = replicas_of(configured(tmp_path, all=sampled))
    jobs: list[Job] = []
    replicas.add("all.sales", jobs.append)
    assert [job.name for job in jobs] == ["replication:all.sales", "verification:all.sales"]
    assert list(replicas.ledgers) == ["all.sales"]


@pytest.mark.parametrize("state", ["following", *sorted(ENDED)])
def test_nothing_of_a_policy_that_has_ended_needs_an_operator(state: str, tmp_path: Path) -> None:
    sampled = {**SALES, "verification": {"tables_per_hour_share": 1}}
    replicas = replicas_of(configured(tmp_path, all=sampled))
    replicas.add("all.sales", lambda _job: None)
    (replica,) = replicas.all
    status = ProjectionStatus("replication:all.sales", "lake", state, None, None)
    replica = replace(replica, part=replace(replica.part, status=lambda: status))
    replicas.all, replicas._by_policy = (replica,), {"all.sales": replica}
    unused: Any = None
    rows = {each.section.key for each in POLICY_SECTIONS if replicas.rows(each, unused)}
    is_followed = state == "following"
    assert rows == ({"copies", "external"} if is_followed else {"copies"})
    assert bool(replicas.samplers()) is is_followed
    assert replicas.on_target("dr") == (("all.sales",) if is_followed else ())


def test_replicas_of_an_earlier_run_start_at_once_unless_no_pattern_covers_them_any_more(
    tmp_path: Path,
) -> None:
    for name in ("own", "all.sales_a", "all.sales_tmp", "all.hr", "gone.sales_a"):
        open_state(tmp_path, STATE_KIND, name).close()
    config = configured(tmp_path, all=SALES)
    assert list(known_policies(config)) == ["all.sales_a"]
    parts = parts_of(config)
    names = [job.name for job in parts.jobs]
    assert {"replication:all.sales_a", "databases:all"} <= set(names)
    assert [part.name for part in parts.projections] == ["replication:all.sales_a"]
    assert [part.name for list_parts in parts.later_projections for part in list_parts()] == []


def build(config: Config) -> tuple[ReplicationProjection, CopyPool]:
    name = "all.sales_eu"
    observer = SilentObserver()
    shared = SharedResources.of(config, CallMetrics(CollectorRegistry()))
    return build_projection(config, name, observer, shared, Pulse())


def test_the_replica_of_a_found_database_is_built_with_the_settings_of_its_pattern(tmp_path: Path) -> None:
    config = configured(tmp_path, all=SALES)
    projection, copies = build(config)
    try:
        policy = projection.loads.context.policy
        assert (policy.source_db, policy.target_db) == ("sales_eu", "sales_eu_r")
    finally:
        projection.close()
        copies.close()


def test_a_replica_that_cannot_be_built_leaves_its_state_file_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConfigError("Spark is not installed")

    monkeypatch.setattr(loop, "build_jobs", fail)
    config = configured(tmp_path, all=SALES)
    for _ in range(2):
        with pytest.raises(ConfigError, match="Spark is not installed"):
            build(config)
    open_state(config.state.dir, STATE_KIND, "all.sales_eu").close()


def test_the_state_of_a_policy_that_moved_to_another_daemon_is_set_aside(tmp_path: Path) -> None:
    config = configured(tmp_path, all=SALES)
    owner = config.daemons.model_copy(update={"count": 2}).owner_of("all.sales_eu")
    other = config.daemons.model_copy(update={"count": 2, "ordinal": 1 - owner})
    open_state(tmp_path, STATE_KIND, "all.sales_eu").close()
    started: list[Job] = []
    runtime = runtime_of(config.model_copy(update={"daemons": other}))
    replicas = Replicas(runtime, ReplicaMetrics(CollectorRegistry(), runtime.projections))
    replicas.add("all.sales_eu", started.append)
    assert not started
    assert not list(tmp_path.glob("*.db*"))
    assert (tmp_path / "moved" / "replication-all.sales_eu.db").is_file()
    rows = replicas.division()
    assert [(row.is_self, row.policies) for row in rows if row.policies] == [(False, ("all.sales_eu",))]
