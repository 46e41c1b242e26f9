"""Cases of ``tideline run`` as a process: its idle cost, and the time to recover after ``kill -9``.

``recovery_1m`` needs a topic of a million records, and no metastore here has so many events. The records are
transactions of another system, written by the relay's own encoder and numbered from the newest event of the
source. The daemon therefore runs with its relay switched off, as if another daemon relayed. Times after the
kill include the start of Python. The time of reading all records begins when the daemon responds.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.events.environment import make_name, run_daemon, say, wait_for
from bench.report import Row, row
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import PARTITION, Topic, TopicSettings
from dev.demo.replicator import Replicator
from dev.fixtures.notifications import notification
from dev.stack.endpoints import Endpoints
from handlers.decoding.records.encoder import encode
from handlers.metastore.client import Metastore


FOREIGN: Final = ("OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "ABORT_TXN")
PLACEHOLDER: Final = 1_111_111_111
MISSED: Final = 1_000
"""Events that arrive while the daemon is down."""


def measure_idle(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    seconds = 10.0 if quick else 60.0
    with run_daemon(endpoints, make_name("idle")) as replicator:
        wait_for(lambda: replicator.progress().behind == 0, "the daemon has caught up")
        time.sleep(2.0)  # the remaining work of a start
        say(f"idle: {seconds:g} s")
        pid = get_pid(replicator)
        probes = find_probes(pid)
        before_s = read_cpu_s(pid) + read_cpu_s(probes)
        time.sleep(seconds)
        used_s = read_cpu_s(pid) + read_cpu_s(probes) - before_s
        yield row("idle_cpu", used_s / seconds * 100, "%", at_most=1.5)
        yield row("idle_rss", read_rss_mb(pid), "MB", at_most=100)
        yield row("idle_rss_probes", read_rss_mb(probes), "MB")


def measure_recovery(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    size = 100_000 if quick else 1_000_000
    db = make_name("recovery")
    with Metastore(endpoints.source.metastore) as source:
        first = source.current_event_id() + 1
    say(f"recovery: writing {size} records")
    broker = BrokerSettings(endpoints.kafka)
    topic = Topic(broker, TopicSettings(f"tideline.{db}"))
    topic.ensure()
    produce(broker, topic, first, size)
    say("recovery: reading them all")
    with run_daemon(endpoints, db, TIDELINE__SOURCES__LAKE__RELAY__ENABLED="false") as replicator:
        began_s = time.monotonic()
        wait_until_applied(replicator, first + size - 1)
        yield row("recovery_1m_read_all", time.monotonic() - began_s, "s")
        pid = get_pid(replicator)
        yield row("rss_after_1m", read_rss_mb(pid), "MB")
        say("recovery: kill -9")
        replicator.stop(signal.SIGKILL)
        produce(broker, topic, first + size, MISSED)
        began_s = time.monotonic()
        replicator.start(TIDELINE__SOURCES__LAKE__RELAY__ENABLED="false")
        yield row("recovery_1m_answers", time.monotonic() - began_s, "s")
        wait_until_applied(replicator, first + size + MISSED - 1)
        yield row("recovery_1m", time.monotonic() - began_s, "s", at_most=2)


def wait_until_applied(replicator: Replicator, event_id: int) -> None:
    """Wait until the daemon has applied ``event_id``."""
    wait_for(lambda: replicator.progress().applied_event == event_id, f"event {event_id}", within_s=600)


def produce(broker: BrokerSettings, topic: Topic, first: int, count: int) -> None:
    """Write records of another system's transactions to the topic, starting with the event id ``first``."""
    templates = [build_template(kind) for kind in FOREIGN]
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


def build_template(kind: str) -> tuple[bytes, bytes, list[tuple[str, str | bytes | None]]]:
    """Return a record encoded by the relay: the bytes before its event id, the bytes after it, and its
    headers.
    """
    event = notification(kind)
    event.eventId = PLACEHOLDER
    (record,) = encode("lake", event, None, record_bytes_max=1 << 19)
    before, after = record.value.split(str(PLACEHOLDER).encode())
    return before, after, list(record.headers)


def get_pid(replicator: Replicator) -> int:
    """Return the process id of the daemon."""
    assert replicator.pid is not None, replicator.log_tail()
    return replicator.pid


def find_probes(pid: int) -> int:
    """Return the id of the child process that answers the probes of a daemon."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    (found,) = (
        each for each in children if b"daemon.http.probes" in Path(f"/proc/{each}/cmdline").read_bytes()
    )
    return found


def read_cpu_s(pid: int) -> float:
    """Return the processor seconds of a process, user and system (fields 14 and 15 of /proc/PID/stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6
