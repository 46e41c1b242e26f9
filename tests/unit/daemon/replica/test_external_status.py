"""The status of copies of external tables, and the command that lists their directories."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from daemon.replica.external.policy_cycles import build_external
from daemon.replica.external.status import EXTERNAL, ExternalStatus, describe_external
from daemon.service.command_line import tideline
from handlers.files.copying.processor_share import ProcessorShare
from handlers.replication.external.cycle import DIRECTORY_LIST, CycleProgress, TableProblem
from handlers.replication.external.cycle_thread import ExternalThread, ExternalTotals
from handlers.replication.external.directories import TreeCounts
from state.errors import MetastoreUnavailable
from state.external.directories import TableDirectories, format_directories
from tests.builders.daemon.assembly import config_of


def thread(**fields: Any) -> ExternalThread:
    values = {
        "running": None,
        "last": None,
        "last_complete_s": None,
        "totals": lambda: ExternalTotals(2, 10, 4096, 1),
    }
    return cast("ExternalThread", SimpleNamespace(**(values | fields)))


def test_the_status_shows_the_last_cycle_and_since_when_everything_is_there() -> None:
    problem = TableProblem(("a", "b"), "file:/x", "refused", "no access")
    last = CycleProgress(1000.0, 3, 2, TreeCounts(missing=1, files=7), problems=[problem], ended_s=1010.0)
    status = describe_external("p", "shop", thread(last=last, last_complete_s=900))
    assert status.state == "idle"
    assert (status.complete_s, status.tables, status.directories, status.missing) == (900, 3, 2, 1)
    assert status.problems[0].tables == ("shop.a", "shop.b")
    assert "1 min ago" in EXTERNAL.text((status,), 960.0)
    (action,) = EXTERNAL.actions((status,))
    assert "shop.a" in action.reason
    samples = {s.name: s.value for family in EXTERNAL.families((status,)) for s in family.samples}
    assert samples["tideline_external_complete_timestamp_seconds"] == 900
    assert samples["tideline_external_copied_bytes_total"] == 4096
    assert samples["tideline_external_problems"] == 1


def test_a_cycle_that_runs_and_one_that_ended_early_are_shown() -> None:
    last = CycleProgress(1000.0, error=MetastoreUnavailable("down"))
    status = describe_external("p", "shop", thread(last=last, running=CycleProgress(1100.0, 5)))
    assert (status.state, status.tables, status.began_s) == ("copying", 5, 1100.0)
    assert status.problem is not None
    assert "metastore-unavailable" in status.problem
    assert "never" in EXTERNAL.text((status,), 1200.0)
    assert list(EXTERNAL.actions((status,))) == [], "it passes by itself"
    (problem,) = EXTERNAL.problems((status,))
    assert problem.startswith("replication:p: the last copy of external tables stopped early: [metastore-")


def test_policies_without_copies_are_in_the_json_only() -> None:
    status = (ExternalStatus("p", "no-base"),)
    assert EXTERNAL.text(status, 0.0) == ""
    assert all(not family.samples for family in EXTERNAL.families(status))


def config(directory: Path, **policy: Any) -> dict[str, Any]:
    return {
        "sources": {
            "lake": {"metastore": ["thrift://127.0.0.1:1"], "topic": "lake", "read_roots": ["file:/w"]}
        },
        "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}},
        "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"} | policy},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "state": {"dir": str(directory)},
    }


def test_copies_need_a_base_and_a_period(tmp_path: Path) -> None:
    base = "file:/base"
    none, off, on = (
        config_of(config(tmp_path, **policy))
        for policy in ({}, {"external_base": base, "external": {"every_s": 0}}, {"external_base": base})
    )
    assert [each.policies["shop"].copies_external for each in (none, off, on)] == [False, False, True]
    context: Any = SimpleNamespace()
    assert build_external(off, "shop", context, [], ProcessorShare()) is None


@pytest.mark.parametrize("own", [True, False])
def test_the_command_lists_directories_with_their_places_on_the_target(tmp_path: Path, own: bool) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(json.dumps(config(tmp_path, external_base="file:/base")))
    runner, arguments = CliRunner(), ["external", "shop", "--config", str(path), "--json"]
    if own:
        refused = runner.invoke(tideline, arguments)
        assert refused.exit_code == 1
        assert "no list of external tables" in str(refused.exception)
    listed = (tmp_path / "external/shop" if own else tmp_path) / DIRECTORY_LIST
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(
        format_directories([TableDirectories("a", "hdfs://nn/x/a", ("hdfs://nn/y", "hdfs://nn/.."))])
    )
    done = runner.invoke(tideline, arguments if own else [*arguments, "--file", str(listed)])
    assert json.loads(done.output)["directories"] == [
        {"table": "shop.a", "source": "hdfs://nn/x/a", "target": "file:/base/x/a"},
        {"table": "shop.a", "source": "hdfs://nn/y", "target": "file:/base/y"},
        {"table": "shop.a", "source": "hdfs://nn/..", "target": None},
    ]
    text = runner.invoke(tideline, [*arguments[:-1], "--file", str(listed)]).output
    assert "file:/base/x/a" in text
