"""Key requests, key logs and a naive count of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey
from streaming.keylog.log import KeyLog
from streaming.keylog.records import DAY_S, KeyRequest, day_of


NOW_S = 1_795_300_000
RAW = "web.raw_events"
FLAT = "web.events_flat"


def open_key_log(address: str, password: str | None = None, now_s: int = NOW_S) -> KeyLog:
    return KeyLog.open(address, password=password, clock=lambda: now_s)


def key_request(
    key: str = "action.name",
    *,
    user: str = "ann",
    days_ago: int = 0,
    fingerprint: str = "f1",
    count: int = 1,
    raw_table: str = RAW,
    second: int = 0,
) -> KeyRequest:
    """Return a request at midnight of the day so many days ago, plus some seconds."""
    at_s = (day_of(NOW_S) - days_ago) * DAY_S + second
    return KeyRequest(raw_table, KeyPath.of_dotted(key), user, at_s, fingerprint, count)


def count_naively(requests: Iterable[KeyRequest], raw_table: str, days: int) -> list[RequestedKey]:
    """Return what ``read_requested_keys`` must return, counted from the requests themselves."""
    since = day_of(NOW_S) - days + 1
    by_key: dict[KeyPath, list[KeyRequest]] = defaultdict(list)
    for each in requests:
        if each.raw_table == raw_table and day_of(each.at_s) >= since:
            by_key[each.key].append(each)
    return [
        RequestedKey(
            key,
            frozenset(each.user for each in group),
            len({day_of(each.at_s) for each in group}),
            sum(each.count for each in group),
            min(each.at_s for each in group),
            max(each.at_s for each in group),
        )
        for key, group in sorted(by_key.items())
    ]
