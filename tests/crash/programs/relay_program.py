"""Relays a fixed log into a topic and exits: the program that the crash test kills.

``python relay_program.py BOOTSTRAP TOPIC STATE_FILE``; every record is a request of its own, so that a kill
can leave an event half written.
"""

from __future__ import annotations

import sys

from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import Topic, TopicSettings
from daemon.relay.loop import RelayLoop
from state.store.sqlite import SqliteStore
from tests.builders.kafka.fake_log import Line, ListedLog, commit, ddl, write
from tests.builders.kafka.fake_topics import relay_settings


RECORD_BYTES_MAX = 4096


def log() -> ListedLog:
    """Eight events, three of them commits with one, two and three writes."""
    listed = ListedLog(
        [ddl(1), commit(2, 72), ddl(3), commit(4, 74), commit(5, 75, []), commit(6, 76), ddl(7), ddl(8)]
    )
    for txn_id, tables in ((72, 1), (74, 2), (76, 3)):
        listed.writes[txn_id] = [write(f"t{number}") for number in range(tables)]
    return listed


def main(bootstrap: str, name: str, state_file: str) -> None:
    """Relay until everything is in the topic."""
    broker = BrokerSettings(bootstrap, client={"batch.num.messages": "1"})
    settings = relay_settings(
        start="earliest",
        record_bytes_max=RECORD_BYTES_MAX,
        batch_events=3,
        linger_ms=0,
        store_s=0.001,
    )
    source = log()
    store = SqliteStore(state_file, schema_version=1)
    relay = RelayLoop(broker, Topic(broker, TopicSettings(name)), source.connect, store, settings)
    last = source.current_event_id()
    relay.run(Line(until=lambda: (relay.status.relayed_event_id or 0) >= last))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
