"""A daemon at a broker that accepts only Kerberos, with the Kafka client that is built for the image."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from daemon.config.kafka_client import has_kerberos
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.servers import Metastore
from dev.stack.servers.kerberos import Kdc
from tests.builders.components.availability import start_or_skip
from tests.builders.components.images import ContainedDaemon, build_daemon_image
from tests.builders.daemon.running_daemon import RunningDaemon
from tests.builders.daemon.tideline_process import COMMAND
from tests.builders.kerberos.secure_daemon import USER
from tests.builders.kerberos.secure_kafka import SecureKafka, options, with_client


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    process = SecureKafka(tmp_path_factory.mktemp("kafka"), kdc)
    with start_or_skip("a Kerberized broker"):
        process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    process = Metastore(tmp_path_factory.mktemp("metastore"))
    with start_or_skip("a metastore"):
        process.start()
    yield process
    process.stop()


@pytest.fixture
def daemon(tmp_path: Path, broker: SecureKafka, metastore: Metastore, keytab: Path) -> RunningDaemon:
    """A daemon that relays a metastore without Kerberos and follows it by an index."""
    configured = RunningDaemon(tmp_path, "unused", environment=with_client(tmp_path / "tickets"))
    values = {
        "sources": {"lake": {"metastore": [metastore.uri], "topic": "events"}},
        "catalog": {"lake": {"lens": False, "partitions": {"tables": ["*.*"]}}},
        "kafka": {"bootstrap": broker.secure_bootstrap, "options": options(USER, keytab)},
        "http": {"port": 0, "probes_port": 0},
        "state": {"dir": str(configured.state_dir)},
    }
    configured.config.write_text(yaml.safe_dump(values))
    return configured


def command(
    daemon: RunningDaemon, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments, "-c", str(daemon.config)],
        env=os.environ | (daemon.environment if environment is None else environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_daemon_relays_and_follows_a_topic_of_a_broker_with_kerberos(
    daemon: RunningDaemon, metastore: Metastore, kdc: Kdc
) -> None:
    checked = command(daemon, "config", "check", "--live")
    assert "GSSAPI" not in checked.stdout + checked.stderr
    logins = kdc.count_logins("tideline")
    with closing(WritingMetastore(metastore.uri)) as client, daemon:
        daemon.applied(client.current_event_id(), deadline_s=60)
        client.abort_txn(client.open_txns(1)[0])
        newest = client.current_event_id()
        assert daemon.applied(newest, deadline_s=30).event_id == newest
    assert kdc.count_logins("tideline") > logins
    assert command(daemon, "dlq", "list").returncode == 0


@pytest.mark.docker
def test_the_image_logs_in_to_a_broker_with_kerberos(
    daemon: RunningDaemon, metastore: Metastore, kdc: Kdc, keytab: Path
) -> None:
    """The image needs the libraries of the client, the module of SASL and the program kinit."""
    image = build_daemon_image()
    mounts = (kdc.directory, keytab.parent)
    tickets = {"KRB5_CONFIG": str(kdc.config), "KRB5CCNAME": f"FILE:{daemon.directory}/tickets"}
    contained = ContainedDaemon(daemon.directory, "unused", environment=tickets, image=image, mounts=mounts)
    assert "GSSAPI" not in contained.command("config", "check", "--live").stdout
    logins = kdc.count_logins("tideline")
    with closing(WritingMetastore(metastore.uri)) as client, contained:
        client.abort_txn(client.open_txns(1)[0])
        newest = client.current_event_id()
        assert contained.applied(newest, deadline_s=60).event_id == newest
    assert kdc.count_logins("tideline") > logins


@pytest.mark.skipif(has_kerberos(), reason="the installed client has Kerberos")
def test_commands_with_the_client_of_the_lock_name_the_setting_and_the_remedy(daemon: RunningDaemon) -> None:
    refused = command(daemon, "dlq", "list", environment={})
    assert refused.returncode == 1
    assert "built without it" in refused.stderr
    assert "dev.kafka_client" in refused.stderr
    assert "defect" not in refused.stderr
    assert "dev.kafka_client" in command(daemon, "config", "check", environment={}).stdout
