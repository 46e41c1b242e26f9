"""The rights of the guide on HDFS are enough for a bootstrap and for following, and no more than enough."""

from __future__ import annotations

import shlex
from pathlib import Path

from dev.stack.cluster import Stack
from dev.stack.servers.hdfs import Hdfs
from tests.builders.components.page_runner import DOCS, PageRunner, cut_section


SHELL = "org.apache.hadoop.fs.FsShell"


def test_the_account_of_the_guide_replicates_a_database_and_writes_nowhere_else(
    hdfs: Hdfs, clusters: Stack, kafka: str, topic: str, tmp_path: Path
) -> None:
    node = hdfs.name_node
    java = shlex.join([*node.command()[:-1], SHELL])
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in node.environment().items())
    script = f'#!/bin/sh\n{exports}shift\nexec {java} "$@"\n'
    for name in ("warehouse", "external", "cmroot"):
        hdfs.administer(SHELL, "-mkdir", "-p", f"{hdfs.uri}/source/{name}")
        hdfs.administer(SHELL, "-chmod", "700", f"{hdfs.uri}/source/{name}")
    source, target = clusters.source.endpoints(), clusters.target.endpoints()
    addresses = {
        "thrift://source-metastore:9083": source.metastore,
        "thrift://target-metastore:9083": target.metastore,
        "kafka:9092": kafka,
        "hdfs://source": f"{hdfs.uri}/source",
        "hdfs://target": f"{hdfs.uri}/target",
        "tideline.lake": topic,
        "state: {dir": "http: {port: 0}\nstate: {dir",
    }
    page = cut_section((DOCS / "guides/least-privilege.md").read_text(), "HDFS")
    with PageRunner(
        tmp_path, {"source": source.sql, "target": target.sql}, addresses, {"hdfs": script}
    ) as runner:
        (tmp_path / "tideline.yaml").write_text(f"state: {{dir: {tmp_path}/state}}\n")
        runner.run(page)
