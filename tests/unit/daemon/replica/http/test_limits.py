"""An operator limits copies while the daemon runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from daemon.config.fields import BYTES_PER_S_MIN
from daemon.http.actions import Audit
from daemon.replica.http.limits import limit_routes
from daemon.replica.shared import SharedResources
from daemon.sources.connections import CallMetrics
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.http_client import acted, operated


if TYPE_CHECKING:
    from pathlib import Path


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
    with operated(tmp_path, *limit_routes(config, shared, audit)) as server:
        body = {"bytes_per_s_max": 5_000_000}
        whole = acted(server.port, "/api/v1/copies/limit", {"bytes_per_s_max": None})
        policy = acted(server.port, "/api/v1/policies/shop/limit", body)
        unknown = acted(server.port, "/api/v1/policies/none/limit", body)[0]
        small = acted(server.port, "/api/v1/copies/limit", {"bytes_per_s_max": BYTES_PER_S_MIN - 1})[0]
        missing = acted(server.port, "/api/v1/copies/limit", {})[0]
    assert whole == (200, {"before": 9_000_000, "bytes_per_s_max": None})
    assert policy == (200, {"before": None, "bytes_per_s_max": 5_000_000})
    assert (unknown, small, missing) == (404, 400, 400)
    assert (shared.rate.bytes_per_s, shared.policy_rate(config, "shop").bytes_per_s) == (None, 5_000_000)
    recorded = [(each["action"], each["object"], each["code"]) for each in audit.answer()["actions"]]
    assert recorded[-2:] == [("limit", "shop", None), ("limit", "", None)]


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_limit_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bytes_per_s_max"):
        config_of({"files": {"bytes_per_s_max": int(text)}})
