"""Daemon 0 runs what exists once; the others follow policies only."""

from __future__ import annotations

from daemon.service.division import select_share
from tests.builders.daemon.assembly import config_of, parts_of


def values(ordinal: int) -> dict[str, object]:
    return {
        "daemons": {"count": 2, "ordinal": ordinal},
        "sources": {"lake": {"metastore": ["thrift://127.0.0.1:1"], "topic": "t", "read_roots": ["file:/w"]}},
        "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}},
        "policies": {
            name: {"source": "lake", "target": "dr", "database": name} for name in ("a", "b", "c", "d")
        },
    }


def test_only_daemon_0_relays_and_keeps_catalogs() -> None:
    first, second = (select_share(config_of(values(ordinal))) for ordinal in (0, 1))
    assert (first.sources["lake"].relay.enabled, second.sources["lake"].relay.enabled) == (True, False)
    kinds = [{job.name.partition(":")[0] for job in parts_of(config).jobs} for config in (first, second)]
    assert "catalog" in kinds[0]
    assert "catalog" not in kinds[1]


def test_policies_are_followed_by_one_of_the_daemons() -> None:
    followed = [
        {part.name for part in parts_of(select_share(config_of(values(ordinal)))).projections}
        - {"catalog:lake"}
        for ordinal in (0, 1)
    ]
    assert not followed[0] & followed[1]
    assert followed[0] | followed[1] == {f"replication:{name}" for name in ("a", "b", "c", "d")}
