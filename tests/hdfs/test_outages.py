"""Servers of HDFS are killed and change their roles while files are copied: every copy is repeated, and none
counts as lost."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import pytest

from dev.stack.servers.hdfs import Hdfs
from dev.stack.servers.hdfs_pair import HdfsPair
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import FilesUnavailable
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hdfs_files import record, write


FILES: Final = 24
KILL_AFTER: Final = (3, 8, 13, 18)
"""Copies that are done when an outage begins."""
DEADLINE_S: Final = 120.0


@dataclass
class Copying:
    """Copies by four threads; each is repeated until it is done. Only transient errors are expected."""

    copier: Copier
    tasks: list[CopyTask]
    done: SimpleQueue[str] = field(default_factory=SimpleQueue)
    repeated: int = 0

    def run(self, disturb: Callable[[], None]) -> None:
        """Copy everything, and call ``disturb`` each time when another of ``KILL_AFTER`` copies are done."""
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(self._copy, task) for task in self.tasks]
            for number in range(1, len(self.tasks) + 1):
                self.done.get(timeout=DEADLINE_S)
                if number in KILL_AFTER:
                    disturb()
            for each in running:
                each.result()

    def _copy(self, task: CopyTask) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                self.copier.copy(task)
            except FilesUnavailable:
                self.repeated += 1
            else:
                break
        self.done.put(task.target_uri)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsPair]:
    started = HdfsPair(tmp_path_factory.mktemp("pair"))
    with start_or_skip("HDFS with two NameNodes"):
        started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    started = Hdfs(tmp_path_factory.mktemp("single"))
    with start_or_skip("HDFS"):
        started.start()
    yield started
    started.stop()


def fail_over(pair: HdfsPair, *, kill: bool) -> Callable[[], None]:
    """Return what makes the other NameNode active, after the active one was killed or put on standby."""
    order = ["nn1", "nn2"]

    def run() -> None:
        old, new = order
        if kill:
            pair.name_nodes[old].kill()
        else:
            pair.deactivate(old)
        pair.activate(new)
        if kill:
            pair.name_nodes[old].start()
        order.reverse()

    return run


@pytest.mark.parametrize("kill", [False, True])
def test_copies_survive_failovers_of_the_name_service(
    pair: HdfsPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    """The name service is configured by Hadoop's own files in one case, and by Tideline's configuration in
    the other."""
    if kill:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(pair.data_node.conf))
    systems = open_file_systems({"hdfs": {} if kill else pair.client_settings})
    root = f"{pair.uri}/{uuid.uuid4().hex}"
    contents = {f"f{number}": os.urandom(50_000) for number in range(FILES)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    allowed = AllowedRoots.of([f"file:{tmp_path}", root])
    tasks = [CopyTask(SourceFile(f"file:{tmp_path}/{name}"), f"{root}/{name}") for name in contents]
    copying = Copying(Copier(systems, allowed), tasks)
    copying.run(fail_over(pair, kill=kill))
    back = [
        CopyTask(SourceFile(task.target_uri), f"file:{tmp_path}/back/{name}")
        for task, name in zip(tasks, contents, strict=True)
    ]
    Copying(Copier(systems, allowed), back).run(fail_over(pair, kill=kill))
    assert {name: (tmp_path / "back" / name).read_bytes() for name in contents} == contents
    names = {entry.name for entry in systems.of(parse_location(root)).list(parse_location(root))}
    assert {name for name in names if not name.startswith(".")} == set(contents)


@pytest.mark.parametrize("victim", ["DataNode", "NameNode"])
def test_copies_survive_a_server_that_is_killed_again_and_again(
    single: Hdfs, tmp_path: Path, victim: str
) -> None:
    """The change manager is there and has none of the files, so that a copy that finds no content would count
    as lost."""
    root = f"{single.uri}/{uuid.uuid4().hex}"
    write(single, f"{root}/cmroot/other", b"")
    contents = {f"f{number}": os.urandom(50_000) for number in range(FILES)}
    for name, content in contents.items():
        write(single, f"{root}/{name}", content)
    sources = {name: record(single, f"{root}/{name}", f"{root}/cmroot") for name in contents}
    tasks = [CopyTask(source, f"{root}/copies/{name}") for name, source in sources.items()]
    tasks += [CopyTask(source, f"file:{tmp_path}/{name}") for name, source in sources.items()]
    component = single.data_nodes[0] if victim == "DataNode" else single.name_node

    def kill() -> None:
        component.kill()
        component.start()

    copying = Copying(Copier(open_file_systems(), AllowedRoots.of([root])), tasks)
    copying.run(kill)
    assert copying.repeated > 0
    assert {name: (tmp_path / name).read_bytes() for name in contents} == contents
    for task in tasks[:FILES]:
        assert copying.copier.copy(task).skipped
