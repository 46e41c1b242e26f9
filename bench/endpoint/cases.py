"""The cases: one client, forwarded calls, and eight clients at once."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.endpoint.environment import DB, FRESHNESS, TABLE, Ports, environment
from bench.endpoint.wire_client import (
    NO_LIMIT,
    WireClient,
    by_filter,
    encode_call,
    list_value,
    names_by_expression,
)
from bench.partitions.metastore import format_day
from bench.report import Row, row
from daemon.endpoint.protocol.wire import text_value


CLIENTS: Final = 8
METASTORE: Final = "Hive 4.2"
FIRST_NEW_DAY: Final = 5
"""The first day that no other case reads; the quick run has ten days."""
DAYS: Final = 200
"""Days that the large table certainly has."""


@dataclass(frozen=True, slots=True)
class Side:
    """Requests to one server, sent in turn with those to other servers. All answers must be as long as the
    first one or, if given, the answer to ``like``.
    """

    port: int
    requests: Sequence[bytes]
    like: bytes | None = None


def cases(quick: bool) -> Iterator[Row]:
    """Yield all rows."""
    with environment(4_800 if quick else 100_000) as ports:
        _compare(ports)
        for port in (ports.metastore, ports.endpoint, ports.bounded, ports.eventual, ports.waggle_dance):
            if port is not None:
                _warm(port)
        yield from latency_cases(ports, 10 if quick else 40)
        yield from new_days_cases(ports, 5 if quick else 40, 10 if quick else DAYS)
        yield from freshness_cases(ports, 10 if quick else 40)
        yield from relieved_cases(ports, 10 if quick else 40)
        yield from forwarded_cases(ports, 50 if quick else 500)
        yield from throughput_cases(ports, 3.0 if quick else 15.0)
        yield from new_days_throughput(ports, 3.0 if quick else 15.0, 10 if quick else DAYS)


def _compare(ports: Ports) -> None:
    """Require that the endpoint gives the metastore's answers, byte for byte."""
    with WireClient(ports.metastore) as direct, WireClient(ports.endpoint) as through:
        for day in range(1, 5):
            made = (day_filter(day), hour_filter(day), day_count(day), day_names(day))
            for request in (*made, expression_names(day)):
                assert direct.call(request).to_bytes() == through.call(request).to_bytes(), request


def _warm(port: int) -> None:
    """Warm up both JVMs with the calls of the cases."""
    with WireClient(port) as client:
        for number in range(200):
            client.call(small_call())
            if number % 20 == 0:
                client.call(day_filter(2))


def small_call() -> bytes:
    """Return a call that the endpoint always forwards and that costs the metastore little."""
    return encode_call("get_database", text_value(DB))


def day_filter(day: int) -> bytes:
    """Return a filter that selects 480 partitions."""
    return by_filter(DB, TABLE, f"ds = '{format_day(day)}'")


def hour_filter(day: int) -> bytes:
    """Return a filter that selects 20 partitions."""
    return by_filter(DB, TABLE, f"ds = '{format_day(day)}' and hr = 5")


def day_count(day: int) -> bytes:
    """Return a call for the number of partitions of a day."""
    texts = (DB, TABLE, f"ds = '{format_day(day)}'")
    return encode_call("get_num_partitions_by_filter", *map(text_value, texts))


def day_names(day: int) -> bytes:
    """Return Trino's call for the names of a day's partitions."""
    values = list_value([format_day(day), "", ""])
    return encode_call("get_partition_names_ps", text_value(DB), text_value(TABLE), values, NO_LIMIT)


def expression_names(day: int) -> bytes:
    """Return the call of Hive's compiler for the names of a day's partitions."""
    return names_by_expression(DB, TABLE, format_day(day))


def event_id_call() -> bytes:
    """Return the query for the newest event id, which exact freshness requires."""
    return encode_call("get_current_notificationEventId")


def latency_cases(ports: Ports, repeats: int) -> Iterator[Row]:
    """Measure one client's calls that the index answers."""
    for case, request, times in (
        ("by_filter_20", hour_filter(2), 10),
        ("by_filter_480", day_filter(2), 10),
        ("names_by_filter_480", expression_names(2), 50),
        ("count_by_filter_480", day_count(2), None),
        ("names_ps_480", day_names(2), None),
    ):
        direct, through, waggle = _times(ports, [request] * repeats)
        yield row(case, through, "ms", times=times, rival=(METASTORE, direct))
        if waggle is not None:
            yield row(f"{case}, Waggle Dance", waggle, "ms", rival=(METASTORE, direct))


def new_days_cases(ports: Ports, repeats: int, days: int) -> Iterator[Row]:
    """Measure calls whose answers are not in the endpoint's memory, because each has another filter and other
    partitions.
    """
    first = FIRST_NEW_DAY
    for case, like, make in (
        ("by_filter_480", day_filter(2), day_filter),
        ("by_filter_20", hour_filter(2), hour_filter),
        ("names_by_filter_480", expression_names(2), expression_names),
    ):
        requests = [make(first + number) for number in range(repeats)]
        direct, through = _alternate(Side(port, requests, like) for port in (ports.metastore, ports.endpoint))
        yield row(f"{case}, each day once", through, "ms", rival=(METASTORE, direct))
        first += repeats if first + 2 * repeats <= days else 0  # the quick run has the same days for all


def freshness_cases(ports: Ports, repeats: int) -> Iterator[Row]:
    """Measure the cost of exact freshness: the same answers with weaker freshness, and only the query for the
    newest event.

    The query is measured both between other calls, as the endpoint makes it, and alone.
    """
    (query,) = _alternate([Side(ports.metastore, [event_id_call()] * repeats)])
    yield row("newest event, at the metastore", query, "ms")
    queries = Side(ports.metastore, [event_id_call()] * repeats)
    for case, request in _repeated():
        servers = [ports.metastore, ports.endpoint, ports.bounded, ports.eventual]
        sides = [Side(port, [request] * repeats) for port in servers]
        direct, *found, query = _alternate([*sides, queries])
        for freshness, value in zip(FRESHNESS, found, strict=True):
            yield row(f"{case}, {freshness}", value, "ms", rival=(METASTORE, direct))
        yield row(f"newest event, in turn with {case}", query, "ms")


def relieved_cases(ports: Ports, repeats: int) -> Iterator[Row]:
    """Measure exact answers while the metastore answers only the queries for the newest event."""
    for case, request in _repeated():
        (value,) = _alternate([Side(ports.endpoint, [request] * repeats)])
        yield row(f"{case}, relieved metastore", value, "ms")


def _repeated() -> Sequence[tuple[str, bytes]]:
    return (
        ("by_filter_20", hour_filter(2)),
        ("by_filter_480", day_filter(2)),
        ("names_by_filter_480", expression_names(2)),
    )


def throughput_cases(ports: Ports, seconds: float) -> Iterator[Row]:
    """Measure eight clients at once, each on its own connection: the time of the run divided by the number of
    calls.
    """
    requests = [day_filter(day) for day in range(1, 5)]
    for case, calls, times in (
        ("by_filter_480_8_clients", requests, 5),
        ("forwarded_8_clients", [small_call()], None),
    ):
        rival = (METASTORE, 1e3 / throughput(ports.metastore, calls, seconds))
        yield row(case, 1e3 / throughput(ports.endpoint, calls, seconds), "ms/call", times=times, rival=rival)
        if ports.waggle_dance is not None:
            value = 1e3 / throughput(ports.waggle_dance, calls, seconds)
            yield row(f"{case}, Waggle Dance", value, "ms/call", rival=rival)


def new_days_throughput(ports: Ports, seconds: float, days: int) -> Iterator[Row]:
    """Measure eight clients that query more days than the endpoint keeps in memory."""
    requests = [day_filter(day) for day in range(days)]
    rival = (METASTORE, 1e3 / throughput(ports.metastore, requests, seconds))
    value = 1e3 / throughput(ports.endpoint, requests, seconds)
    yield row("by_filter_480_8_clients, all days", value, "ms/call", rival=rival)


def forwarded_cases(ports: Ports, repeats: int) -> Iterator[Row]:
    """Measure the time that the endpoint adds to small and large calls that it forwards."""
    direct, through, waggle = _times(ports, [small_call()] * repeats)
    yield row("forwarded_call overhead", through - direct, "ms", at_most=1)
    yield row("forwarded_call", through, "ms", rival=(METASTORE, direct))
    if waggle is not None:
        yield row("forwarded_call, Waggle Dance overhead", waggle - direct, "ms")


def _times(ports: Ports, requests: Sequence[bytes]) -> tuple[float, float, float | None]:
    """Return the median milliseconds of a call to the metastore, to the endpoint, and to Waggle Dance, which
    has the calls of Hive 2.3.
    """
    sides = [ports.metastore, ports.endpoint]
    if ports.waggle_dance is not None:
        with WireClient(ports.waggle_dance) as client:
            sides += [ports.waggle_dance] if client.knows(requests[0]) else []
    direct, through, *waggle = _alternate([Side(port, requests) for port in sides])
    return direct, through, waggle[0] if waggle else None


def _alternate(sides: Iterable[Side]) -> list[float]:
    """Return the median milliseconds of each side's requests, which are sent in turn.

    (Waggle Dance omits fields that Hive 2.3 does not know, so lengths are compared only within a side.)
    """
    with ExitStack() as stack:
        clients = [(stack.enter_context(WireClient(side.port)), side) for side in sides]
        sizes = [len(client.call(side.like or side.requests[0]).to_bytes()) for client, side in clients]
        times: list[list[float]] = [[] for _ in clients]
        for number in range(len(clients[0][1].requests)):
            for at in range(len(clients)):
                each = (number + at) % len(clients)
                client, side = clients[each]
                times[each].append(client.time_call(side.requests[number], sizes[each]))
    return [statistics.median(each) * 1e3 for each in times]


def throughput(port: int, requests: list[bytes], seconds: float) -> float:
    """Return the calls per second of eight clients, each of which sends one request after another."""
    begin = threading.Barrier(CLIENTS)
    rates = [0.0] * CLIENTS

    def run(number: int) -> None:
        with WireClient(port) as client:
            size = len(client.call(requests[0]).to_bytes())  # the same for all of them
            begin.wait()
            began_s, done = time.monotonic(), 0
            while time.monotonic() < began_s + seconds:
                at = (number * len(requests) // CLIENTS + done) % len(requests)
                client.time_call(requests[at], size)
                done += 1
            rates[number] = done / (time.monotonic() - began_s)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)
