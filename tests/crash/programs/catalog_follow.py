"""Follows one database's timelines and partitions up to the newest event,
in small steps, then prints them: to be killed on the way.

Arguments: metastore, database, state file, and ``publish`` where timelines are to be written back.
"""

from __future__ import annotations

import json
import sys

from handlers.catalog.following.loads import steps
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines import timeline_load
from handlers.catalog.timelines.publisher import TimelinePublisher
from state.store.sqlite import SqliteStore
from tests.builders.catalog.followed_catalog import followed_catalog, indexed_content, rules_for


BATCH = 2
steps.PIECE = 1  # type: ignore[misc]  # so that every table of two partitions is loaded in pieces
timeline_load.WRITTEN = 1  # type: ignore[misc]  # and its timelines in steps of one key


def main(uri: str, database: str, path: str, *options: str) -> None:
    store = SqliteStore(path, schema_version=1)
    rules = rules_for(database, columns=("dt", "it"))
    publisher = TimelinePublisher if "publish" in options else None
    indexed = PartitionRules((f"{database}.*",))
    catalog = followed_catalog(uri, rules, store=store, publisher=publisher, partitions=indexed)
    position = catalog.projection.open()
    catalog.projection.load_all()
    events = catalog.events(position.event_id)
    for start in range(0, len(events), BATCH):
        catalog.projection.apply(events[start : start + BATCH])
    catalog.projection.load_all()
    while catalog.projection.settle():
        pass
    catalog.timelines.check(store)
    catalog.partitions.check()
    store.check()
    content = [[*key, runs] for key, runs in sorted(catalog.content().items())]
    told = {
        "content": content,
        "dirty": sorted(catalog.follower.unpublished),
        "partitions": indexed_content(catalog),
    }
    print(json.dumps(told))  # noqa: T201 - read by the test
    catalog.projection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
