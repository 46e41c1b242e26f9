"""A relay that is killed at any step, and started again, leaves the whole log in the topic, in order.

What stands there twice is what a reader drops; what a reader is left with is compared byte for byte with a
relay that was never killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack.errors import StackError
from dev.stack.servers.kafka import Kafka
from handlers.failpoints import VARIABLE
from state.event_log.positions import Position, Step
from tests.builders.kafka.fake_log import ListedLog, ddl
from tests.builders.kafka.fake_topics import outbox
from tests.builders.kafka.relay_and_readers import Stream, drain
from tests.crash.programs import relay_program


pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
POINTS_MAX = 60
STEPS = (
    "relay.topic-ensured",
    "relay.resumed",
    "relay.read",
    "relay.enriched",
    "relay.produced",
    "relay.acknowledged",
    "relay.stored",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    kafka = Kafka(tmp_path_factory.mktemp("kafka"))
    try:
        kafka.start()
    except (StackError, FileNotFoundError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no broker: {error}")
    yield kafka
    kafka.stop()


def run(stream: Stream, state: Path, failpoint: str = "") -> int:
    program = [
        sys.executable,
        str(ROOT / "tests/crash/programs/relay_program.py"),
        stream.broker.bootstrap,
        stream.name,
        str(state),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), VARIABLE: failpoint}
    done = subprocess.run(program, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


def what_a_reader_keeps(stream: Stream) -> list[bytes]:
    position, kept = Position(0), []
    for record in stream.contents():
        step = position.step(record.position.event_id, record.position.part)
        assert step is not Step.GAP, (position, record.position)
        if step is Step.NEXT:
            position = record.position
            kept.append(record.value)
    return kept


def whole_log() -> list[bytes]:
    source = relay_program.log()
    settings: dict[str, Any] = {"record_bytes_max": relay_program.RECORD_BYTES_MAX}
    return [record.value for record in outbox(source, **settings).records(1, source.current_event_id())]


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_pass_of_a_step_and_started_again_the_whole_log_is_there(
    broker: Kafka, tmp_path: Path, step: str
) -> None:
    kills = 0
    for count in range(1, POINTS_MAX):
        stream = Stream(broker.bootstrap, f"crash_{uuid.uuid4().hex[:8]}")
        state = tmp_path / f"{count}.db"
        if run(stream, state, f"{step}:{count}") == 0:
            break
        kills += 1
        assert run(stream, state) == 0
        assert what_a_reader_keeps(stream) == whole_log()
    assert 0 < kills < POINTS_MAX - 1, "the step is passed, and not for ever"


def test_killed_again_and_again_on_one_topic_the_whole_log_is_there(broker: Kafka, tmp_path: Path) -> None:
    stream = Stream(broker.bootstrap, f"crash_{uuid.uuid4().hex[:8]}")
    state = tmp_path / "state.db"
    for step in STEPS * 2:
        run(stream, state, f"{step}:2" if step == "relay.produced" else step)
    assert run(stream, state) == 0
    assert what_a_reader_keeps(stream) == whole_log()


def test_a_reader_of_what_the_killed_relays_left_sees_every_event_once(broker: Kafka, tmp_path: Path) -> None:
    stream = Stream(broker.bootstrap, f"crash_{uuid.uuid4().hex[:8]}")
    for count in range(1, 6):
        run(stream, tmp_path / "state.db", f"relay.produced:{count}")
    assert run(stream, tmp_path / "state.db") == 0
    seen = [(event.event_id, event.part) for event in drain(stream.reader(), Position(0))]
    assert len(seen) == len(whole_log())
    assert seen == sorted(set(seen))


def test_a_start_that_was_chosen_is_kept_although_nothing_was_relayed_before_the_kill(broker: Kafka) -> None:
    stream = Stream(broker.bootstrap, f"crash_{uuid.uuid4().hex[:8]}")
    stream.log = ListedLog([ddl(1), ddl(2)])
    stream.relay_all(start="current")
    stream.log.add(ddl(3))
    stream.relay_all(start="current")
    assert [record.position for record in stream.contents()] == [Position(3)]
