"""Every section of a policy's status has its rows from one list, before the policy is open and afterwards."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from daemon.config.settings.policies import PolicyConfig
from daemon.replica.loading.load_resources import LoadCopies
from daemon.replica.status.copies import CopyStatus
from daemon.replica.status.loads import LoadCounts
from daemon.replica.status.points import PointTaker
from daemon.replica.status.policy_sections import POLICY_SECTIONS, OpenPolicy
from daemon.status.model import DaemonStatus
from handlers.replication.loading.load_thread import LoadThread
from handlers.replication.loading.table.tools import LoadSettings
from tests.builders.daemon.assembly import SECTIONS, config_of
from tests.builders.daemon.loops import daemon_status
from tests.builders.replication.fake_target import faked_replica


def settings(tmp_path: Path) -> PolicyConfig:
    uri = "thrift://127.0.0.1:1"
    policy = {"source": "lake", "target": "dr", "database": "shop", "target_database": "shop_r"}
    return config_of(
        {
            "sources": {"lake": {"metastore": [uri], "topic": "lake", "read_roots": ["file:/w"]}},
            "targets": {"dr": {"metastore": [uri]}},
            "policies": {"shop": policy},
            "kafka": {"bootstrap": "127.0.0.1:1"},
            "state": {"dir": str(tmp_path)},
        }
    ).policy("shop")


def test_a_policy_that_is_not_open_has_the_rows_that_its_settings_give(tmp_path: Path) -> None:
    policy = settings(tmp_path)
    rows = {each.section.key: list(each.read_unopened("shop", policy)) for each in POLICY_SECTIONS}
    assert [key for key, values in rows.items() if values] == ["copies", "external"]
    assert rows["copies"] == [CopyStatus("shop")]
    assert rows["external"][0].state == "no-base"


def test_every_section_of_an_open_policy_can_be_read_and_is_the_same_after_json(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path)
    with closing(replica.projection):
        context = replica.context
        context.tables.loads.request("visits", "release")
        context.tables.left.add("old")
        unused: Any = None
        points = PointTaker("shop")
        points.take(7, None, context)
        policy = OpenPolicy(
            "shop",
            settings(tmp_path),
            context,
            context.copies,
            LoadCopies(lambda: unused),
            LoadCounts(),
            LoadThread(context, lambda: unused, LoadSettings()),
            None,
            points,
        )
        sections = {each.section.key: tuple(each.read(policy)) for each in POLICY_SECTIONS}
    assert [key for key, rows in sections.items() if rows] == [
        "points",
        "copies",
        "external",
        "loads",
        "left",
    ]
    status = daemon_status(sections=sections)
    read = DaemonStatus.from_json(status.to_json(), SECTIONS)
    assert {key: read.sections[key] for key in sections} == sections
