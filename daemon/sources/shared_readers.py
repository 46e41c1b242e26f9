"""The shared readers of a process, one for each source, and the subscriptions of projections to them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from daemon.consumer.shared.reader import SharedReader
from daemon.consumer.shared.subscription import Subscription
from daemon.sources.connections import consumer_settings, topic_reader
from handlers.routing import Interest


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.config.model import Config


class SharedReaders:
    """Builds each shared reader at its first use. Thread-safe."""

    def __init__(self, config: Config, moved: Callable[[str], None] = lambda _: None) -> None:
        """Calls ``moved`` with ``source:NAME`` after reading events of a source."""
        self._config = config
        self._moved = moved
        self._readers: dict[str, SharedReader] = {}
        self._lock = threading.Lock()

    def of(self, source: str) -> SharedReader:
        """Return the shared reader of a source. It starts reading when a projection joins it."""
        with self._lock:
            if source not in self._readers:
                self._readers[source] = self._build(source)
            return self._readers[source]

    def _build(self, source: str) -> SharedReader:
        config = self._config
        policies = [policy.source for policy in config.policies.values()].count(source)
        has_pattern = any(pattern.source == source for pattern in config.policy_patterns.values())
        name = f"source:{source}"
        return SharedReader(
            source,
            partial(topic_reader, config, source, projection=name, group=f"tideline.source.{source}"),
            has_several=policies > 1 or has_pattern,
            moved=partial(self._moved, name),
        )


def subscribe(  # noqa: PLR0913 - most of them by name
    config: Config,
    shared: SharedReader,
    source: str,
    *,
    projection: str,
    group: str,
    needs_event_ids: bool = False,
    find_interest: Callable[[], Interest] = Interest,
    wake: Callable[[], None],
) -> Subscription:
    """Return the reader of ``projection``, which reads together with others if it can. Opens nothing.

    ``group`` is the consumer group of its own client. ``find_interest`` returns which events the projection
    must receive. Calls ``wake`` when such events have arrived.
    """
    read_alone = partial(
        topic_reader, config, source, projection=projection, group=group, needs_event_ids=needs_event_ids
    )
    settings = consumer_settings(config, source, group=group, needs_event_ids=needs_event_ids)
    return Subscription(shared, read_alone, settings, find_interest, wake)
