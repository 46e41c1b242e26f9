"""Pages of timelines and partitions over a real index and real timelines of three months."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from daemon.catalog.branch import OpenSource
from daemon.endpoint.pages import endpoint_page
from daemon.partitions.answers import PartitionAnswers, PartitionsView
from daemon.partitions.pages import partition_pages
from daemon.service.event_pages import event_pages
from daemon.service.log_page import log_page
from daemon.site.pages import PageRoute
from daemon.sources.shared_readers import SharedReaders
from daemon.status.model import DaemonStatus
from daemon.timelines.answers import TimelineAnswers, TimelinesView
from daemon.timelines.pages import timeline_pages
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from state.store.memory import MemoryStore
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings
from tests.builders.daemon.assembly import config_of


DAYS = 90
EVENT_ID = 1_234_567


def catalog_pages() -> list[PageRoute]:
    """Return the pages over ``db.visits``, which has partitions by day and region and some holes."""
    timelines = TimelinesView(event_id=EVENT_ID, waiting={}, quarantined={}, timelines=_timelines())
    partitions = PartitionsView(
        follower=_follower(),
        event_id=EVENT_ID,
        waiting={},
        quarantined={f"{DB}.clicks": "[malformed-event] event 1234001 cannot be read"},
        under_load={},
    )
    newest = {"lake": EVENT_ID + 2}.get
    return [
        *timeline_pages(TimelineAnswers([OpenSource("lake", lambda: timelines)], newest)),
        *partition_pages(PartitionAnswers([OpenSource("lake", lambda: partitions)], newest)),
    ]


def all_pages(status: Callable[[], DaemonStatus]) -> list[PageRoute]:
    """Return these and the other pages that need no running loop."""
    config = config_of({"sources": {"lake": {"metastore": ["thrift://nowhere:9083"], "topic": "events"}}})
    return [
        *catalog_pages(),
        endpoint_page(status),
        *event_pages(config, SharedReaders(config)),
        log_page(),
    ]


def _moments() -> Iterator[datetime]:
    """Yield every hour, without two days and some single hours."""
    begin = datetime(2023, 1, 10, tzinfo=UTC)
    for hour in range(DAYS * 24):
        if hour // 24 not in {31, 32} and hour % 311 != 300:
            yield begin + timedelta(hours=hour)


def _timelines() -> Timelines:
    made = Timelines()
    with MemoryStore().transaction() as txn:
        change = made.change(txn)
        for name in ("clicks", "orders", "visits"):
            change.follow(f"{DB}.{name}", TableSettings(("dt",), ("dt",)))
            for moment in _moments():
                change.add(f"{DB}.{name}", {"dt": f"{moment:%Y-%m-%d-%H}"})
                change.add(f"{DB}.{name}", {"dt": f"{moment:%Y-%m-%d}"})
        change.publish()
    return made


def _follower() -> PartitionFollower:
    source: Any = MemorySource()
    for name in ("clicks", "visits"):
        source.create(name)
        for day in sorted({f"{moment:%Y-%m-%d}" for moment in _moments()}):
            for region in ("ap", "eu", "us"):
                source.add(name, day, region)
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    projection = CatalogProjection(
        source_name="lake", source=source, store=MemoryStore(), followers=[follower]
    )
    projection.open()
    projection.load_all()
    return follower
