"""A thousand silent, slow, greedy and half-open clients on every port of a daemon that replicates."""

from __future__ import annotations

from bench.hostile.storms import MEMORY_MAX_MB, measure_storm
from dev.stack.endpoints import Endpoints


def test_a_storm_on_every_port_stops_neither_probes_nor_clients_nor_replication(stack: Endpoints) -> None:
    rows = {each.case: each for each in measure_storm(stack, rounds=1, transactions=60)}
    assert rows["storm_livez_failed"].value == 0
    assert rows["storm_call_failed"].value == 0
    assert rows["storm_memory"].value <= MEMORY_MAX_MB
    assert rows["storm_memory_serve"].value <= MEMORY_MAX_MB
