"""The guide to Kerberos works as it stands on its page: its ticket, metastores and broker.

Its section about HDFS is run by ``tests/hdfs/test_kerberos.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dev.stack.hive.kerberized import HOST
from dev.stack.servers.kerberos import REALM
from tests.builders.components.availability import start_or_skip
from tests.builders.components.page_runner import DOCS, PageRunner, cut_section
from tests.builders.kerberos.secure_kafka import SecureKafka, with_client


if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.kerberized import KerberizedStack
    from dev.stack.servers.kerberos import Kdc


PAGE = (DOCS / "guides/kerberos.md").read_text()
RUNNING = "state: {dir"


def realm_of_the_test(keytab: Path) -> dict[str, str]:
    return {"EXAMPLE.COM": REALM, "/etc/security/tideline.keytab": str(keytab)}


def roots(cluster: ClusterEndpoints) -> str:
    return f'"file://{cluster.warehouse}", "file://{cluster.cmroot}"'


def test_the_keytab_gives_a_ticket(keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    with PageRunner(tmp_path, {}, realm_of_the_test(keytab)) as runner:
        runner.run(PAGE.partition("\n## ")[0])


def test_a_database_is_replicated_between_metastores_with_kerberos(
    clusters: KerberizedStack, keytab: Path, tmp_path: Path
) -> None:
    with clusters.source.sql(), clusters.target.sql():
        pass  # the engines start with their first session
    found = clusters.endpoints()
    addresses = {
        **realm_of_the_test(keytab),
        "thrift://source-metastore:9083": clusters.source.metastore.uri,
        "thrift://target-metastore:9083": clusters.target.metastore.uri,
        "kafka:9092": found.kafka,
        '"hdfs://source/warehouse", "hdfs://source/cmroot"': roots(found.source),
        RUNNING: f"http: {{port: 0}}\n{RUNNING}",
    }
    engines = {"source": clusters.source.engine.address, "target": clusters.target.engine.address}
    page = cut_section(PAGE, "Metastores").replace("shop", "guided").replace("tideline.lake", "guided.lake")
    with PageRunner(tmp_path, engines, addresses) as runner:
        runner.run(page)


def test_the_client_logs_in_at_a_broker(
    kdc: Kdc, clusters: KerberizedStack, keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = SecureKafka(tmp_path / "kafka", kdc)
    with start_or_skip("a Kerberized broker"):
        broker.start()
    for name, value in with_client(tmp_path / "tickets").items():
        monkeypatch.setenv(name, value)
    login = f"{{mechanism: kerberos, principal: hive/{HOST}@{REALM}, keytab: {keytab}}}"
    source = (
        f"sources: {{lake: {{metastore: ['{clusters.source.metastore.uri}'], topic: events, auth: {login}}}}}"
    )
    addresses = {
        **realm_of_the_test(keytab),
        "kafka:9092": broker.secure_bootstrap,
        "SASL_SSL": "SASL_PLAINTEXT",
        "kafka:\n": f"{source}\nstate: {{dir: state}}\nkafka:\n",
    }
    try:
        with PageRunner(tmp_path, {}, addresses) as runner:
            runner.run(cut_section(PAGE, "Kafka"))
    finally:
        broker.stop()
