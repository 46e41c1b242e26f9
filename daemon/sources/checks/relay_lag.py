"""The live check of a relay's lag, for a source that does not report the files of a transaction.

The relay of such a source lists the directories of each commit. If a compaction has removed them, the replica
loads the table again. Hive looks for tables to compact at intervals, so a relay that is behind by more than
an interval meets more and more such commits. The status warns of a running relay of this daemon
(``daemon.retention``); the check also covers one that does not run, and one of another daemon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from daemon.config.document import Problem
from daemon.config.model import Config
from daemon.config.settings.clusters import SourceConfig
from daemon.sources.checks.hive_settings import read_seconds
from daemon.sources.checks.transaction_checks import COMPACTOR_CHECK, INITIATOR, SourceMetastore, lists_writes
from state.errors import KafkaUnavailable, NotFound
from state.event_log.retention import WARNING_SHARE


KEY: Final = "relay"


def check_lag(
    metastore: SourceMetastore,
    place: str,
    config: Config,
    source: SourceConfig,
    clock: Callable[[], float] = time.time,
) -> Iterator[Problem]:
    """Yield a warning if the relay is behind for more than half of the compactor's interval.

    An unreadable topic is a problem of ``topic_checks``.
    """
    if not lists_writes(metastore) or metastore.config_value(INITIATOR).lower() == "false":
        return
    interval_s = read_seconds(metastore, COMPACTOR_CHECK)
    newest = metastore.current_event_id()
    relayed = _find_relayed(config, source, newest)
    if relayed is None or not interval_s:
        return
    event = next(iter(metastore.next_events(relayed, 1)), None)
    lag_s = 0.0 if event is None else clock() - event.eventTime
    if lag_s > interval_s * WARNING_SHARE:
        yield Problem(
            place,
            KEY,
            f"{lag_s:.0f} s",
            f"has been behind for more than half of {COMPACTOR_CHECK}, {interval_s:g} s: if directories of a "
            "table are compacted before the relay lists them, the table is loaded again",
            "start the relay, or look for the cause of its delay with 'tideline status'",
            warning=True,
        )


def _find_relayed(config: Config, source: SourceConfig, newest: int) -> int | None:
    """Return the id of the last event that is completely in the topic; None if there is none, or the topic is
    unreadable.
    """
    # Imported here because they import the Kafka library.
    from daemon.kafka.broker import broker_settings
    from daemon.kafka.offset_search import OffsetReader, find_last

    assert config.kafka is not None, "checked with the configuration"
    with (
        suppress(KafkaUnavailable, NotFound),
        OffsetReader(broker_settings(config.kafka), source.topic) as topic,
    ):
        last = find_last(topic, upto=newest)
        return None if last is None else last.position.applied_event_id
    return None
