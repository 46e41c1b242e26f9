"""The relay of a real metastore publishes exactly its log, also across restarts of the metastore."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from daemon.config.settings.clusters import RelayConfig
from daemon.process.loops.loop import Job
from daemon.process.loops.retry_policy import RestartPolicy
from daemon.process.loops.supervisor import Supervisor
from daemon.relay.loop import RelayLoop
from daemon.relay.publisher import RelaySettings
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.servers import Metastore as MetastoreProcess
from handlers.metastore.client import Metastore
from state.errors import MetastoreUnavailable
from state.event_log.positions import Position, Step
from tests.builders.kafka.fake_log import Line
from tests.builders.kafka.relay_and_readers import Stream, drain, wait_until
from tests.integration.kafka.conftest import StreamOf


@pytest.fixture(scope="module")
def metastore(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreProcess]:
    """A metastore that may be killed."""
    process = MetastoreProcess(tmp_path_factory.mktemp("metastore"))
    process.start()
    yield process
    process.stop()


class _NoMeasures:
    def loop_failed(self, loop: str, code: str) -> None:
        pass

    def loop_restarted(self, loop: str) -> None:
        pass


def relay_of(stream: Stream, uri: str) -> RelayLoop:
    settings = RelaySettings(source="src", section=RelayConfig(start="earliest"))
    return RelayLoop(stream.broker, stream.topic, lambda: Metastore(uri), stream.store, settings)


def relayed(relay: RelayLoop) -> int:
    return relay.status.relayed_event_id or 0


def transactions(client: WritingMetastore, count: int) -> None:
    """Open and abort transactions, the cheapest events (two each)."""
    for txn_id in client.open_txns(count):
        client.abort_txn(txn_id)


def test_the_topic_is_the_metastores_log_event_for_event(
    stream_of: StreamOf, source: ClusterEndpoints
) -> None:
    stream = stream_of()
    relay = relay_of(stream, source.metastore)
    with closing(WritingMetastore(source.metastore)) as client:
        current = client.current_event_id()
        relay.run(Line(until=lambda: relayed(relay) >= current))
        logged = client.next_events(0, current)
    contents = {record.position.event_id for record in stream.contents()}
    assert contents.issuperset(event.eventId for event in logged)
    position = Position.before(1)
    events = drain(stream.reader(), position)
    for event in events:
        assert position.step(event.event_id, event.part) is Step.NEXT
        position = Position(event.event_id, event.part, event.parts)
    kinds = {event.event_id: event.kind for event in events}
    assert [kinds[event.eventId] for event in logged] == [event.eventType for event in logged]


def test_a_metastore_that_is_killed_and_started_again_loses_and_reorders_nothing(
    stream_of: StreamOf, metastore: MetastoreProcess
) -> None:
    stream = stream_of()
    relay = relay_of(stream, metastore.uri)
    supervisor = Supervisor(
        [Job("relay", relay.run)], backoff=RestartPolicy(0.1, 1.0), heartbeat_max_s=60, measures=_NoMeasures()
    )
    supervisor.start()
    for _ in range(2):
        with closing(WritingMetastore(metastore.uri)) as client:
            transactions(client, 30)
            before = client.current_event_id()
        wait_until(lambda wanted=before: relayed(relay) >= wanted, "what was there is relayed")  # type: ignore[misc]
        metastore.kill()
        wait_until(lambda: supervisor.statuses()["relay"].problem is not None, "the relay has noticed")
        metastore.start()
        with closing(WritingMetastore(metastore.uri)) as client:
            transactions(client, 30)
            after = client.current_event_id()
        wait_until(lambda wanted=after: relayed(relay) >= wanted, "what came later is relayed")  # type: ignore[misc]
    assert supervisor.stop(20) == []
    records = [record.position.event_id for record in stream.contents()]
    assert records == list(range(1, after + 1))


def test_a_commit_is_in_the_topic_before_the_next_one(
    stream_of: StreamOf, metastore: MetastoreProcess
) -> None:
    stream = stream_of()
    relay = relay_of(stream, metastore.uri)
    line = Line()
    thread = threading.Thread(target=relay.run, args=(line,))
    thread.start()
    with closing(WritingMetastore(metastore.uri)) as client:
        wait_until(lambda: relayed(relay) >= client.current_event_id(), "the relay has caught up")
        for _ in range(5):
            transactions(client, 1)
            wanted = client.current_event_id()
            wait_until(lambda wanted=wanted: relayed(relay) >= wanted, "the event is relayed")  # type: ignore[misc]
    line.stopping.set()
    thread.join()


def test_an_unavailable_metastore_at_the_start_is_a_transient_error(stream_of: StreamOf) -> None:
    relay = relay_of(stream_of(), "thrift://127.0.0.1:9")
    with pytest.raises(MetastoreUnavailable):
        relay.run(Line())


def test_gaps_are_filled_with_identical_records(stream_of: StreamOf, source: ClusterEndpoints) -> None:
    stream = stream_of()
    relay = relay_of(stream, source.metastore)
    with closing(WritingMetastore(source.metastore)) as client:
        current = client.current_event_id()
    relay.run(Line(until=lambda: relayed(relay) >= current))
    from daemon.sources.outbox import build_outbox

    filler = build_outbox(lambda: Metastore(source.metastore), RelaySettings(source="src"), stream.topic)
    with closing(filler):
        again = [record.value for record in filler.records(1, current)]
    assert again == [record.value for record in stream.contents() if record.position.event_id <= current]
