"""The tutorials and guides work as they stand on their pages, on real clusters."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.sql_session import Session
from dev.stack.process.ports import free_port
from tests.builders.components.authorizing_kafka import AuthorizingKafka
from tests.builders.components.java_programs import hdfs_program, kafka_programs
from tests.builders.components.page_runner import DOCS, TIDELINE, PageRunner, cut_section


BEELINE: Final = f"""#!{sys.executable}
import sys

from dev.stack.hive.sql_session import Session

_, _, address, _, statement = sys.argv
with Session.connect(address) as session:
    print(session.rows(statement))
"""
"""``beeline -u ADDRESS -e STATEMENT`` against an engine of the stack."""
NEWER_BUILD: Final = f"""#!{sys.executable}
from daemon.replica import loop
from daemon.service.command_line import main

opened = loop.open_state
loop.open_state = lambda *names, **options: opened(*names, **options, migrations=[lambda txn: None])
main()
"""
"""A build whose state files of replicas have the next version."""


def roots(cluster: ClusterEndpoints) -> str:
    return ", ".join(f'"file://{directory}"' for directory in cluster.directories)


def addresses(stack: Endpoints) -> dict[str, str]:
    return {
        '"hdfs://source/external", ': "",  # among those of the cluster
        "hdfs://source/external": f"file://{stack.source.external}",
        "hdfs://target/external": f"file://{stack.target.external}/{uuid.uuid4().hex[:8]}",
        "thrift://source-metastore:9083": stack.source.metastore,
        "thrift://target-metastore:9083": stack.target.metastore,
        "kafka:9092": stack.kafka,
        '"hdfs://source/warehouse", "hdfs://source/cmroot"': roots(stack.source),
        '"hdfs://target/warehouse", "hdfs://target/cmroot"': roots(stack.target),
        "state: {dir": "http: {port: 0}\nstate: {dir",
    }


def run_replicated(page: str, names: Sequence[str], stack: Endpoints, directory: Path) -> None:
    """Run a page with names of databases and topics that no other test has."""
    run_text((DOCS / page).read_text(), names, stack, directory)


def run_text(  # noqa: PLR0913, PLR0917 - one argument for each part of a walk
    text: str,
    names: Sequence[str],
    stack: Endpoints,
    directory: Path,
    builds: Mapping[str, str] | None = None,
    replaced: Mapping[str, str] | None = None,
) -> None:
    suffix = uuid.uuid4().hex[:8]
    for name in names:
        text = text.replace(name, f"{name}_{suffix}")
    engines = {"source": stack.source.sql, "target": stack.target.sql}
    programs = kafka_programs() | hdfs_program()
    with PageRunner(directory, engines, addresses(stack) | dict(replaced or {}), programs, builds) as runner:
        runner.run(text)


def test_a_first_database_is_replicated_followed_compared_and_promoted(
    stack: Endpoints, source_sql: Session, database: str, tmp_path: Path
) -> None:
    source_sql.run(f"create database {database}")  # a cluster without any event would cause another warning
    run_replicated("tutorials/replica.md", ("shop", "tideline.lake"), stack, tmp_path)


@pytest.mark.long
def test_a_failover_is_rehearsed_and_switched_back(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/failover.md", ("shop", "tideline.east", "tideline.west"), stack, tmp_path)


@pytest.mark.long
def test_databases_of_a_pattern_are_found_and_one_is_retired(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/many-databases.md", ("sales", "tideline.lake"), stack, tmp_path)


@pytest.mark.long
def test_a_topic_is_deleted_recreated_and_moved(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/topic.md", ("shop", "tideline.lake"), stack, tmp_path)


def test_a_policy_is_removed_and_both_databases_are_dropped(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/remove-policy.md", ("shop", "blog", "tideline.lake"), stack, tmp_path)


@pytest.mark.long
def test_a_state_is_backed_up_lost_and_restored(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/backup.md", ("shop", "tideline.lake"), stack, tmp_path)


@pytest.mark.long
def test_a_daemon_works_with_the_least_rights_at_a_broker(stack: Endpoints, tmp_path: Path) -> None:
    broker = AuthorizingKafka(tmp_path / "kafka")
    broker.start()
    page = cut_section((DOCS / "guides/least-privilege.md").read_text(), "Kafka")
    shutil.copy(broker.authority, tmp_path / "kafka-ca.pem")
    try:
        secured = replace(stack, kafka=broker.user_bootstrap)
        run_text(page, ("shop", "tideline.lake"), secured, tmp_path)
    finally:
        broker.stop()


@pytest.mark.long
def test_a_policy_is_watched_limited_changed_and_paused(stack: Endpoints, tmp_path: Path) -> None:
    start, limits, policies = (
        (DOCS / f"guides/{name}.md").read_text() for name in ("backup", "bandwidth", "policies")
    )
    changes = ("The patterns of a policy change", "Switching the replication of a table off")
    page = "".join(
        [
            cut_section(start, "Bootstrap by hand"),
            cut_section((DOCS / "guides/monitoring.md").read_text(), "Monitoring"),
            *(cut_section(policies, name) for name in (*changes, "A policy must be paused")),
            '```sh title="stop"\n```\n',
            limits.replace("## Change", '```sh title="second terminal"\ntideline run\n```\n## Change', 1),
        ]
    )
    probes = free_port()
    replaced = {
        "state: {dir": f"http: {{port: 0, probes_port: {probes}}}\nstate: {{dir",
        "8471": str(probes),
    }
    run_text(page, ("shop", "tideline.lake"), stack, tmp_path, replaced=replaced)


def test_files_of_an_external_table_follow_without_events(stack: Endpoints, tmp_path: Path) -> None:
    run_replicated("guides/external-tables.md", ("shop", "tideline.lake"), stack, tmp_path)


def test_an_old_client_works_through_an_endpoint(stack: Endpoints, tmp_path: Path) -> None:
    metastore = stack.target.metastore.removeprefix("thrift://")
    replaced = {"target-metastore:9083": metastore, "127.0.0.1:9083": f"127.0.0.1:{free_port()}"}
    with PageRunner(tmp_path, {}, replaced) as runner:
        runner.run((DOCS / "tutorials" / "endpoint.md").read_text())


@pytest.mark.long
def test_a_script_waits_for_a_partition_a_range_and_a_replica(
    stack: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE", stack.source.sql)
    monkeypatch.setenv("TARGET", stack.target.sql)
    suffix = uuid.uuid4().hex[:8]
    page = (DOCS / "guides/wait.md").read_text().replace("web", f"web_{suffix}")
    replaced = {
        **addresses(stack),
        "state: {dir": "state: {dir",
        "tideline.lake": f"tideline.lake_{suffix}",
        "8470": str(free_port()),
    }
    engines = {"source": stack.source.sql, "target": stack.target.sql}
    with PageRunner(tmp_path, engines, replaced, {"beeline": BEELINE}) as runner:
        runner.run(page)


@pytest.mark.long
def test_a_hive_3_moves_to_hive_4(stack: Endpoints, hive_3: HiveCluster, tmp_path: Path) -> None:
    old = hive_3.endpoints()
    run_replicated("guides/hive-3-to-4.md", ("shop", "tideline.old"), replace(stack, source=old), tmp_path)


@pytest.mark.long
def test_a_build_with_newer_state_files_is_installed_and_the_earlier_one_returns(
    stack: Endpoints, tmp_path: Path
) -> None:
    start = cut_section((DOCS / "guides/backup.md").read_text(), "Bootstrap by hand")
    page = start + (DOCS / "guides/upgrade.md").read_text()
    builds = {"new build": NEWER_BUILD, "earlier build": TIDELINE}
    run_text(page, ("shop", "tideline.lake"), stack, tmp_path, builds)


@pytest.mark.long
def test_a_file_of_events_becomes_a_table_of_the_keys_that_queries_read(tmp_path: Path) -> None:
    with PageRunner(tmp_path, {}, {}) as runner:
        runner.run((DOCS / "tutorials" / "json.md").read_text())
