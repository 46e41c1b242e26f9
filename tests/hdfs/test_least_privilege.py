"""The rights of the guide on HDFS are enough, and no more than enough."""

from __future__ import annotations

import shlex
from pathlib import Path

from dev.stack.servers.hdfs import Hdfs
from tests.builders.components.page_runner import DOCS, PageRunner, cut_section


SHELL = "org.apache.hadoop.fs.FsShell"


def test_the_account_of_the_guide_reads_the_source_and_writes_only_to_the_target(
    hdfs: Hdfs, tmp_path: Path
) -> None:
    node = hdfs.name_node
    java = shlex.join([*node.command()[:-1], SHELL])
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in node.environment().items())
    script = f'#!/bin/sh\n{exports}shift\nexec {java} "$@"\n'
    source, target = f"{hdfs.uri}/guide/source", f"{hdfs.uri}/guide/target"
    for directory in (f"{source}/warehouse/shop.db", f"{source}/cmroot"):
        hdfs.administer(SHELL, "-mkdir", "-p", directory)
        hdfs.administer(SHELL, "-chmod", "700", directory)
    addresses = {"hdfs://source": source, "hdfs://target": target}
    (tmp_path / "tideline.yaml").write_text(f"state: {{dir: {tmp_path}/state}}\n")
    with PageRunner(tmp_path, {}, addresses, {"hdfs": script}) as runner:
        runner.run(cut_section((DOCS / "guides/least-privilege.md").read_text(), "HDFS"))
