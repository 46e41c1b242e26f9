"""The settings of the compose file, run as processes: both metastores, and the daemon with its configuration.

Only paths and addresses differ from those in the containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.servers import Metastore
from dev.stack.hive.settings import ClusterSettings
from handlers.structs.objects import Database
from tests.builders.components.availability import start_or_skip
from tests.builders.components.compose_file import read_daemon_config, read_hive_settings
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.daemon.running_daemon import RunningDaemon


@pytest.fixture
def metastores(tmp_path: Path) -> Iterator[dict[str, Metastore]]:
    started: dict[str, Metastore] = {}
    with ExitStack() as cleanup:
        for side in ("source", "target"):
            extra = {
                name: value.replace("file:/warehouse", f"file:{tmp_path}/warehouse")
                for name, value in read_hive_settings(side).items()
            }
            started[side] = Metastore(tmp_path / side, settings=ClusterSettings(extra=extra))
            cleanup.callback(started[side].stop)
            with start_or_skip("a metastore"):
                started[side].start()
        yield started


def test_a_database_of_the_source_appears_at_the_target(
    metastores: dict[str, Metastore], kafka: str, tmp_path: Path, topic: str
) -> None:
    daemon = RunningDaemon(tmp_path, "unused")
    text = yaml.safe_dump(
        read_daemon_config() | {"http": {"port": 0}, "state": {"dir": str(daemon.state_dir)}}
    )
    for name, instead in {
        "thrift://source-metastore:9083": metastores["source"].uri,
        "thrift://target-metastore:9083": metastores["target"].uri,
        "kafka:9092": kafka,
        "tideline.lake": topic,
        "file:///warehouse": f"file://{tmp_path}/warehouse",
    }.items():
        text = text.replace(name, instead)
    daemon.config.write_text(text)
    checked = daemon.command("config", "check", "--live")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with closing(WritingMetastore(metastores["source"].uri)) as source:
        source.create_database(
            Database(name="trial", locationUri=f"file:{tmp_path}/warehouse/source/trial.db")
        )
    with daemon, closing(WritingMetastore(metastores["target"].uri)) as target:
        wait_until(lambda: "trial" in target.database_names())
