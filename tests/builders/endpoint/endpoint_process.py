"""``tideline serve`` as a component that tests kill and start again on the same port, also while statements
run."""

from __future__ import annotations

import random
import re
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from dev.stack.process.component import Component
from dev.stack.process.ports import free_port


PROGRAM: Final = "from daemon.service.command_line import main; main()"
RANDOM_SEED: Final = 14


class EndpointProcess(Component):
    """The endpoint in front of a metastore, on one port over all its starts."""

    def __init__(self, directory: Path, metastore: str) -> None:
        super().__init__("endpoint", directory)
        self.port = free_port()
        self.http_port = free_port()
        self.kills = 0
        self._answered_before = 0.0
        self._options: Sequence[str] = ["--metastore", metastore, "--listen", self.listen]

    @property
    def listen(self) -> str:
        """Where it listens, as a setting."""
        return f"127.0.0.1:{self.port}"

    def serve_source(self, config: Path, source: str) -> None:
        """From the next start on, answer from the index of a configured source, which must listen on
        ``listen``."""
        self._options = ["--source", source, "--config", str(config)]

    @property
    def uri(self) -> str:
        """The address for clients."""
        return f"thrift://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Nothing has to exist."""

    def command(self) -> list[str]:
        """The command as a user runs it; the comment names the directory, by which a component is
        recognised."""
        http = ["--http", f"127.0.0.1:{self.http_port}"]
        return [sys.executable, "-c", f"# {self.directory}\n{PROGRAM}", "serve", *self._options, *http]

    def check_ready(self) -> None:
        """Ready when it accepts connections."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass

    def metric(self, name: str) -> float:
        """Return a metric since the last start, summed over its labels."""
        with urlopen(f"http://127.0.0.1:{self.http_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        pattern = re.compile(rf"tideline_endpoint_{name}(?:{{.*}})? (\S+)")
        return sum(float(found[1]) for line in lines if (found := pattern.fullmatch(line)))

    def answered(self) -> float:
        """Return how many calls were answered from the index, over all its starts."""
        return self._answered_before + self.metric("calls_answered_total")

    def kill_and_start(self) -> None:
        """Kill it, as a crash would, and start it again."""
        with suppress(OSError):  # it listens for clients a little earlier than for this
            self._answered_before = self.answered()
        self.kill()
        self.kills += 1
        self.start()

    @contextmanager
    def killed_again_and_again(self, first_s: float, last_s: float) -> Iterator[None]:
        """Kill it and start it again during the block, after random pauses between these times."""
        ended, chance = threading.Event(), random.Random(RANDOM_SEED)  # noqa: S311 - repeatable

        def run() -> None:
            while not ended.wait(chance.uniform(first_s, last_s)):
                self.kill_and_start()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
