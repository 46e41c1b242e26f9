"""Cases of ``tideline run`` as a process: what it takes while nothing happens, and how soon it is back after ``kill -9``.

``recovery_1m`` needs a topic of a million records, for which no metastore here has the events: they are transactions of somebody
else, made by the relay's own encoder and numbered on from the source's newest event. The daemon therefore runs with its relay
switched off, as where another daemon relays; everything else is as always. Times after the kill include the
start of Python; that of reading all begins when the daemon answers.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from bench.events.environment import following, say, unique, wait_for
from bench.report import Row, row
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import PARTITION, Topic, TopicSettings
from dev.fixtures.notifications import notification
from handlers.decoding.encoder import encode
from handlers.metastore.client import Metastore


if TYPE_CHECKING:
    from collections.abc import Iterator

    from dev.demo.replicator import Replicator
    from dev.stack.endpoints import Endpoints


FOREIGN: Final = ("OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "ABORT_TXN")
PLACEHOLDER: Final = 1_111_111_111
MISSED: Final = 1_000
"""Events that come while the daemon is dead."""


def idle(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    seconds = 10.0 if quick else 60.0
    with following(endpoints, unique("idle")) as replicator:
        wait_for(lambda: replicator.progress().behind == 0, "the daemon has caught up")
        time.sleep(2.0)  # what a start leaves to do
        say(f"idle: {seconds:g} s")
        pid = running(replicator)
        before_s = cpu_s(pid)
        time.sleep(seconds)
        yield row("idle_cpu", (cpu_s(pid) - before_s) / seconds * 100, "%", at_most=2)
        yield row("idle_rss", rss_mb(pid), "MB", at_most=150)


def recovery(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    size = 100_000 if quick else 1_000_000
    db = unique("recovery")
    with Metastore(endpoints.source.metastore) as source:
        first = source.current_event_id() + 1
    say(f"recovery: writing {size} records")
    broker = BrokerSettings(endpoints.kafka)
    topic = Topic(broker, TopicSettings(f"tideline.{db}"))
    topic.ensure()
    produce(broker, topic, first, size)
    say("recovery: reading them all")
    with following(endpoints, db, TIDELINE__SOURCES__LAKE__RELAY__ENABLED="false") as replicator:
        began_s = time.monotonic()
        caught_up(replicator, first + size - 1)
        yield row("recovery_1m_read_all", time.monotonic() - began_s, "s")
        pid = running(replicator)
        yield row("rss_after_1m", rss_mb(pid), "MB")
        say("recovery: kill -9")
        replicator.stop(signal.SIGKILL)
        produce(broker, topic, first + size, MISSED)
        began_s = time.monotonic()
        replicator.start(TIDELINE__SOURCES__LAKE__RELAY__ENABLED="false")
        yield row("recovery_1m_answers", time.monotonic() - began_s, "s")
        caught_up(replicator, first + size + MISSED - 1)
        yield row("recovery_1m", time.monotonic() - began_s, "s", at_most=5)


def caught_up(replicator: Replicator, event_id: int) -> None:
    """Wait until the daemon says that it has applied ``event_id``."""
    wait_for(lambda: replicator.progress().applied_event == event_id, f"event {event_id}", within_s=600)


def produce(broker: BrokerSettings, topic: Topic, first: int, count: int) -> None:
    """Write records of foreign transactions with ids from ``first`` on."""
    templates = [template(kind) for kind in FOREIGN]
    producer = Producer(
        broker.librdkafka(compression_type="lz4", linger_ms=50, queue_buffering_max_messages=100_000)
    )
    for event_id in range(first, first + count):
        before, after, headers = templates[event_id % len(templates)]
        value = b"%b%d%b" % (before, event_id, after)
        while True:
            try:
                producer.produce(topic.name, value=value, key=b"lake", headers=headers, partition=PARTITION)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    assert producer.flush(60.0) == 0
    producer.close()


def template(kind: str) -> tuple[bytes, bytes, list[tuple[str, str | bytes | None]]]:
    """Return a record as the relay encodes it: what stands before its event id, what after it, and its headers."""
    event = notification(kind)
    event.eventId = PLACEHOLDER
    (record,) = encode("lake", event, None, record_bytes_max=1 << 19)
    before, after = record.value.split(str(PLACEHOLDER).encode())
    return before, after, list(record.headers)


def running(replicator: Replicator) -> int:
    """Return the daemon's process id."""
    assert replicator.pid is not None, replicator.log_tail()
    return replicator.pid


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far, user and system (fields 14 and 15 of /proc/PID/stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Resident memory of a process in MB (10^6 bytes)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6
