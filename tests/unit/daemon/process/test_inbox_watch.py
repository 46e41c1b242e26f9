"""A loop is woken when something changes in its inbox, and only then."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from daemon.process.inbox import send_request
from daemon.process.inbox_watch import LOOKS, InboxWatch
from state.errors import Transient
from tests.builders.daemon.loops import DEADLINE_S
from tests.builders.kafka.fake_log import Line


SECOND_NS = 1_000_000_000


def change(directory: Path, time_ns: int) -> None:
    """Set the time of an inbox, and that of its parent, as a request does."""
    directory.mkdir(exist_ok=True)
    for each in (directory, directory.parent):
        os.utime(each, ns=(time_ns, time_ns))


def test_only_the_loop_whose_inbox_changes_is_woken_and_only_once(tmp_path: Path) -> None:
    woken: list[str] = []
    watch = InboxWatch(lambda: 100 * SECOND_NS)
    for name in ("one", "other", "absent"):
        watch.add(tmp_path / name, lambda name=name: woken.append(name))  # type: ignore[misc]
    for name in ("one", "other"):
        change(tmp_path / name, 10 * SECOND_NS)
    watch.look()
    assert woken == ["one", "other"]
    watch.look()
    change(tmp_path / "one", 20 * SECOND_NS)
    watch.look()
    watch.look()
    assert woken == ["one", "other", "one"]


def test_two_changes_with_the_same_time_are_both_seen(tmp_path: Path) -> None:
    woken: list[int] = []
    now_ns = [100 * SECOND_NS]
    watch = InboxWatch(lambda: now_ns[0])
    watch.add(tmp_path / "one", lambda: woken.append(now_ns[0]))
    change(tmp_path / "one", now_ns[0])
    watch.look()
    now_ns[0] += SECOND_NS // 2  # a file that was created just after the look has not changed the time
    watch.look()
    now_ns[0] += SECOND_NS
    watch.look()
    assert len(woken) == 2


def test_a_request_of_a_client_that_was_killed_before_it_touched_the_parent_is_found_later(
    tmp_path: Path,
) -> None:
    woken: list[str] = []
    watch = InboxWatch(lambda: 100 * SECOND_NS)
    watch.add(tmp_path / "one", lambda: woken.append("one"))
    change(tmp_path / "one", 10 * SECOND_NS)
    watch.look()
    os.utime(tmp_path / "one", ns=(20 * SECOND_NS, 20 * SECOND_NS))
    for _ in range(LOOKS - 1):
        watch.look()
    assert woken == ["one"]
    watch.look()
    assert woken == ["one", "one"]


def test_a_request_wakes_its_loop_at_the_next_look(tmp_path: Path) -> None:
    woken: list[str] = []
    watch = InboxWatch()
    watch.add(tmp_path / "one", lambda: woken.append("one"))
    change(tmp_path / "one", 10 * SECOND_NS)
    watch.look()
    watch.look()
    assert woken == ["one"]
    with pytest.raises(Transient):
        send_request(tmp_path / "one", {"do": "it"}, 0.01)
    watch.look()
    assert woken == ["one", "one"]


def test_the_loop_of_the_watch_looks_until_it_stops(tmp_path: Path) -> None:
    woken, line = threading.Event(), Line()
    watch = InboxWatch()
    watch.add(tmp_path, woken.set)
    looking = threading.Thread(target=watch.run, args=(line,))
    looking.start()
    assert woken.wait(DEADLINE_S)
    line.stopping.set()
    looking.join(DEADLINE_S)
    assert not looking.is_alive()
