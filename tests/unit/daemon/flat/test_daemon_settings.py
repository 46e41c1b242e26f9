"""From the configuration to a flat table's driver: what is said elsewhere is taken along, what cannot be is
told with its place."""

from __future__ import annotations

import socket
from pathlib import Path
from textwrap import dedent

import pytest

from daemon.config.load import Loaded
from daemon.config.model import Config
from daemon.config.settings.clusters import KafkaConfig
from daemon.flat.driver_settings import flat_settings, java_client
from daemon.flat.settings import FLAT
from daemon.service.configuration import config_reader
from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from state.errors import ConfigError
from streaming.driver import masters
from streaming.settings import (
    DirectorySource,
    EpochUnit,
    KafkaSource,
    LatePolicy,
    PartitionColumn,
    Publishing,
)


GOOD = """\
    targets:
      dr: {metastore: ["thrift://target:9083"]}
    flat:
      events:
        table: web.events_flat
        raw_table: web.events
        location: hdfs://target/web/events_flat
        cluster: dr
        source: {kind: kafka, topic: web.events}
        event_time: {key: meta.epoch, unit: ms, too_late: hour}
        rules: {whitelist: [uuid], pins: {n: bigint}, retention_days: 30}
        spark: {master: "local[3]", driver_memory: 2g, executor_memory: 4g, conf: {spark.ui.enabled: true}}
    mining:
      raw_tables: {web.events: {json_column: json}}
    kafka:
      bootstrap: "k:9092"
      options:
        {security.protocol: sasl_ssl, sasl.mechanism: SCRAM-SHA-512, sasl.username: tide,
         ssl.ca.location: /ca.pem}
      secrets: {sasl.password: {env: KAFKA_PASSWORD}}
"""


def read(tmp_path: Path, text: str) -> Loaded:
    path = tmp_path / "tideline.yaml"
    path.write_text(dedent(text) + f"state: {{dir: {tmp_path}/state}}\n")
    return config_reader().read(path, {})


def config(tmp_path: Path, text: str) -> Config:
    loaded = read(tmp_path, text)
    assert loaded.config is not None, loaded.problems
    return loaded.config


def reasons(loaded: Loaded) -> dict[str, str]:
    return {problem.key: problem.reason for problem in loaded.problems}


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 'hun"ter\\2')


def test_a_table_takes_broker_metastore_key_log_and_raw_column_from_their_sections(tmp_path: Path) -> None:
    settings = flat_settings(config(tmp_path, GOOD), "events")
    assert settings == flat_settings(config(tmp_path, GOOD), "web.events_flat")
    assert (settings.database, settings.table) == ("web", "events_flat")
    assert settings.metastores == ("thrift://target:9083",)
    assert settings.checkpoint == "hdfs://target/web/events_flat/.checkpoint"
    assert settings.raw_column == "json"
    assert settings.keylog_url.endswith(f"{tmp_path}/state/keylog.db")
    assert (settings.event_time.unit, settings.event_time.too_late) == (
        EpochUnit.MILLISECONDS,
        LatePolicy.TO_ITS_HOUR,
    )
    assert settings.event_time.key == KeyPath(("meta", "epoch"))
    assert settings.rules.pins == {KeyPath(("n",)): ColumnType.BIGINT}
    assert settings.retention_s == 30 * 86_400
    assert settings.publishes_by is Publishing.RENAME
    assert settings.spark.conf == {"spark.ui.enabled": "true", "spark.executor.memory": "4g"}
    assert settings.partition_columns[1] == PartitionColumn("hh", "int", "%H")


def test_the_broker_is_reached_by_java_as_by_librdkafka_and_no_secret_is_shown(tmp_path: Path) -> None:
    source = flat_settings(config(tmp_path, GOOD), "events").source
    assert isinstance(source, KafkaSource)
    assert (source.bootstrap, source.topic) == ("k:9092", "web.events")
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    assert source.options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{login} username="tide" password="hun\\"ter\\\\2";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }
    assert "hun" not in repr(source)


def test_a_source_with_brokers_of_its_own_takes_nothing_from_kafka(tmp_path: Path) -> None:
    text = GOOD.replace(
        "{kind: kafka, topic: web.events}",
        "{kind: kafka, topic: t, bootstrap: 'other:1', options: {security.protocol: SSL}, secrets: "
        "{ssl.key: {env: KAFKA_PASSWORD}}}",
    )
    loaded = config(tmp_path, text)
    source = flat_settings(loaded, "events").source
    assert isinstance(source, KafkaSource)
    assert source.bootstrap == "other:1"
    assert source.options == {"security.protocol": "SSL", "ssl.key": 'hun"ter\\2'}
    assert loaded.secrets().count('hun"ter\\2') == 2, "the logs have to know it"


def test_a_secret_among_sparks_settings_is_refused_with_a_place_that_exists(tmp_path: Path) -> None:
    text = GOOD.replace("spark.ui.enabled: true", "spark.hadoop.fs.s3a.secret.key: hunter2")
    found = reasons(read(tmp_path, text))["flat.events.spark.conf"]
    assert "environment, such as AWS_SECRET_ACCESS_KEY" in found
    assert "'secrets'" not in found
    assert "hunter2" not in found


def test_a_login_mechanism_that_java_does_not_have_is_reported() -> None:
    kafka = KafkaConfig(bootstrap="k:1", options={"sasl.mechanism": "OAUTHBEARER"})
    with pytest.raises(ConfigError, match="cannot be translated"):
        java_client(kafka)


def test_a_directory_needs_no_broker(tmp_path: Path) -> None:
    text = """\
        flat:
          events:
            table: web.events_flat
            raw_table: web.events
            location: file:/flat
            source: {kind: directory, path: "file:/landing", files_per_batch: 3}
            event_time: {key: epoch}
            partition_columns: {hour: {pattern: "%Y-%m-%dT%H"}}
    """
    settings = flat_settings(config(tmp_path, text), "events")
    assert settings.source == DirectorySource("file:/landing", 3)
    assert settings.metastores == ()
    assert settings.partition_columns == (PartitionColumn("hour", "string", "%Y-%m-%dT%H"),)


def test_a_table_without_a_stream_is_configured_for_its_keys_alone(tmp_path: Path) -> None:
    loaded = config(tmp_path, "flat: {events: {table: web.events_flat, raw_table: web.events}}\n")
    assert not FLAT.of(loaded)["events"].is_written
    with pytest.raises(ConfigError, match="has no stream"):
        flat_settings(loaded, "events")
    with pytest.raises(ConfigError, match="unknown flat table"):
        flat_settings(loaded, "other")


@pytest.mark.parametrize(
    ("given", "instead", "key", "reason"),
    [
        ("source: {kind: kafka, topic: web.events}", "run: false", "flat.events", "has no source"),
        ("topic: web.events", "path: 'file:/x'", "flat.events.source", "has no topic"),
        ("cluster: dr", "cluster: rd", "flat.events.cluster", "must be a target or a source"),
        (
            "cluster: dr",
            "cluster: dr\n        metastore: ['thrift://a:1']",
            "flat.events.cluster",
            "must not be set together with metastore",
        ),
        ("cluster: dr", "view: events_old", "flat.events.view", "must not be set for a table in Spark"),
        ("cluster: dr", "cluster: dr\n        view: events_flat", "flat.events", "with the table's own name"),
        ("unit: ms", "grace_s: 1", "flat.events", "grace"),
        ("key: meta.epoch", "key: ''", "flat.events.event_time.key", "must be a key"),
        ("local[3]", "local[x]", "flat.events.spark.master", "must be a Spark master"),
        ("driver_memory: 2g", "driver_memory: 2gb", "flat.events.spark.driver_memory", "must be a size"),
        (
            "cluster: dr",
            "cluster: dr\n        partition_columns: {dt: {pattern: '%Y'}}",
            "flat.events",
            "do not distinguish hours",
        ),
        ("kafka:\n      bootstrap", "http:\n      host", "kafka.bootstrap", "must be set"),
    ],
)
def test_a_wrong_setting_is_reported_with_its_place(
    tmp_path: Path, given: str, instead: str, key: str, reason: str
) -> None:
    assert given in GOOD
    found = reasons(read(tmp_path, GOOD.replace(given, instead, 1)))
    assert reason in found.get(key, ""), found


def test_two_tables_never_share_a_table_a_place_or_a_checkpoint(tmp_path: Path) -> None:
    entry = (
        "{table: a.b, raw_table: a.c, location: 'file:/x', checkpoint: 'file:/c', source: {kind: "
        "directory, path: 'file:/l'}, event_time: {key: t}}"
    )
    found = reasons(read(tmp_path, f"flat:\n  one: {entry}\n  two: {entry}\n"))
    assert {"flat.two.table", "flat.two.location", "flat.two.checkpoint"} <= set(found)


def test_a_driver_with_executors_is_reachable_and_owns_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = tmp_path / "namespace"
    namespace.write_text("prod\n")
    monkeypatch.setattr(masters, "NAMESPACE_FILE", namespace)
    monkeypatch.setattr(socket, "gethostname", lambda: "tideline-0")
    monkeypatch.setattr(socket, "gethostbyname", lambda _: "10.1.2.3")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    text = GOOD.replace("local[3]", "k8s://https://kubernetes.default.svc")
    conf = flat_settings(config(tmp_path, text), "events").spark.conf
    assert conf["spark.driver.host"] == "10.1.2.3"
    assert conf["spark.kubernetes.driver.pod.name"] == "tideline-0"
    assert conf["spark.kubernetes.namespace"] == "prod"
    assert conf["spark.executor.memory"] == "4g"


def test_a_standalone_cluster_is_told_of_executors_by_their_cores(tmp_path: Path) -> None:
    text = GOOD.replace("local[3]", "spark://here:7077").replace("executor_memory: 4g", "executors: 3")
    conf = flat_settings(config(tmp_path, text), "events").spark.conf
    assert (conf["spark.executor.cores"], conf["spark.cores.max"]) == ("1", "3")
    text = text.replace("executors: 3", "executors: 3, executor_cores: 4")
    conf = flat_settings(config(tmp_path, text), "events").spark.conf
    assert (conf["spark.executor.cores"], conf["spark.cores.max"]) == ("4", "12")


def test_executors_of_a_standalone_cluster_without_a_secret_are_a_warning(tmp_path: Path) -> None:
    text = GOOD.replace("local[3]", "spark://here:7077")
    found = [each for each in read(tmp_path, text).problems if each.key.endswith("spark.master")]
    assert [(each.warning, each.value) for each in found] == [(True, "spark://here:7077")]
    for decided in ("true", "false"):
        conf = f"spark.authenticate: {decided}"
        assert not read(tmp_path, text.replace("spark.ui.enabled: true", conf)).problems
    assert not read(tmp_path, GOOD.replace("local[3]", "yarn")).problems


def test_an_absolute_path_is_a_place_on_the_local_disk(tmp_path: Path) -> None:
    text = """\
        flat:
          web:
            table: default.events_flat
            raw_table: default.raw_events
            location: /tmp/flat/events/
            source: {kind: directory, path: /tmp/flat/landing}
            event_time: {key: $.epoch}
    """
    settings = flat_settings(config(tmp_path, text), "web")
    assert settings.location == "file:///tmp/flat/events"
    assert settings.checkpoint == "file:///tmp/flat/events/.checkpoint"
    assert settings.source == DirectorySource("file:///tmp/flat/landing")
