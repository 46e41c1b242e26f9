"""An operator limits copies while the daemon runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pydantic import TypeAdapter

from daemon.config.fields import BYTES_PER_S_MIN
from daemon.http.actions import Audit
from daemon.replica.http.limits import LimitList, limit_routes
from daemon.replica.shared import SharedResources
from daemon.service.command_line import call
from daemon.sources.connections import CallMetrics
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import HOST, acted, operated


def test_limits_of_all_copies_and_of_a_policy_are_set_and_removed(tmp_path: Path) -> None:
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "sources": {"lake": {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}},
            "targets": {"dr": {"metastore": ["thrift://b:9083"]}},
            "kafka": {"bootstrap": "kafka:9092"},
            "files": {"bytes_per_s_max": 9_000_000},
            "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}},
        }
    )
    shared, audit = SharedResources.of(config, CallMetrics(CollectorRegistry(auto_describe=False))), Audit()
    with operated(tmp_path, *limit_routes(config, shared, audit, lambda: ["shop"])) as server:
        body = {"bytes_per_s_max": 5_000_000}
        whole = acted(server.port, "/api/v1/copies/limit", {"bytes_per_s_max": None})
        policy = acted(server.port, "/api/v1/policies/shop/limit", body)
        unknown = acted(server.port, "/api/v1/policies/none/limit", body)[0]
        small = acted(server.port, "/api/v1/copies/limit", {"bytes_per_s_max": BYTES_PER_S_MIN - 1})[0]
        large = acted(server.port, "/api/v1/copies/limit", {"bytes_per_s_max": 2**70})[0]
        missing = acted(server.port, "/api/v1/copies/limit", {})[0]
    assert whole == (200, {"before": 9_000_000, "bytes_per_s_max": None})
    assert policy == (200, {"before": None, "bytes_per_s_max": 5_000_000})
    assert (unknown, small, large, missing) == (404, 400, 400, 400)
    assert (shared.rate.bytes_per_s, shared.policy_rate(config, "shop").bytes_per_s) == (None, 5_000_000)
    recorded = [(each["action"], each["object"], each["code"]) for each in audit.answer()["actions"]]
    assert recorded[-2:] == [("limit", "shop", None), ("limit", "copies", None)]


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_limit_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bytes_per_s_max"):
        config_of({"files": {"bytes_per_s_max": int(text)}})


def test_the_command_shows_and_changes_the_limits_of_a_daemon_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "sources": {"lake": {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}},
            "targets": {"dr": {"metastore": ["thrift://b:9083"]}},
            "kafka": {"bootstrap": "kafka:9092"},
            "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}},
        }
    )
    shared = SharedResources.of(config, CallMetrics(CollectorRegistry(auto_describe=False)))
    with operated(tmp_path, *limit_routes(config, shared, Audit(), lambda: ["shop"])) as server:
        where = ["--url", f"http://{HOST}:{server.port}", "--token-file", str(tmp_path / "operator")]
        assert call(["limit", "20MiB", "--policy", "shop", *where]) == 0
        assert call(["limit", "5MiB", *where]) == 0
        assert call(["limit", "none", *where]) == 0
        assert call(["limit", "1", *where]) == 2
        capsys.readouterr()
        assert call(["limit", *where, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    check_form(TypeAdapter(LimitList), json.dumps(shown))
    assert shown == {"bytes_per_s_max": None, "policies": [{"name": "shop", "bytes_per_s_max": 20 << 20}]}
