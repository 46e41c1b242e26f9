"""Reads query texts in a child process with limits on memory and processor time.

Anyone who may run a query chooses its text, and parsing has no bound that holds for every text: a few
kilobytes of common table expressions have taken gigabytes and minutes. A text that exceeds a limit ends the
child process, and counts as too large. The caller continues with the next text and records its position as
usual, so the text is not read again.

One process reads all texts, because starting it takes half a second. It ends with the process that uses it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

import structlog

from state.errors import MinerEnded
from streaming.mining.miner import Question
from streaming.mining.model import TOO_LARGE, MinedKeys, MiningRules


log = structlog.get_logger(__name__)

TEXT_CPU_S: Final = 10
"""Processor time for one text; the largest texts of a query log take less than a second."""
TEXT_WAIT_S: Final = 300.0
"""Time for one text on a machine that is busy with other work."""
MEMORY_BYTES: Final = 256 << 20
"""Memory that the texts may need in addition to the process itself."""
START_S: Final = 60.0
_TOGETHER: Final = 50
"""Texts in one message. If the process ends, they are read again one by one."""
_ATTEMPTS: Final = 2
"""How often to try a text again if its process was killed from outside, for example by the kernel for lack of
memory.
"""


class TextWorker:
    """Reads texts like ``Miner.read_all``, in the child process. Not thread-safe."""

    def __init__(
        self, rules: MiningRules, *, memory_bytes: int = MEMORY_BYTES, cpu_s: int = TEXT_CPU_S
    ) -> None:
        self._settings = (rules, memory_bytes, cpu_s)
        self._tables = {table.name: table for table in rules.raw_tables}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None before the first text and after one that exceeded a limit."""
        return None if self._process is None else self._process.pid

    def read_all(self, questions: Sequence[Question]) -> list[MinedKeys]:
        """Return the keys that each text requests; raise MinerEnded if the child process does not start."""
        answers: list[MinedKeys] = []
        for at in range(0, len(questions), _TOGETHER):
            chunk = questions[at : at + _TOGETHER]
            together = self._ask(chunk) if len(chunk) > 1 else None
            if together is None:
                if len(chunk) > 1:
                    self.close()
                together = [self._read_alone(question) for question in chunk]
            answers += together
        return answers

    def _read_alone(self, question: Question) -> MinedKeys:
        code = None
        for _ in range(_ATTEMPTS):
            answer = self._ask([question])
            if answer is not None:
                return answer[0]
            code = self.close()
            if code != -signal.SIGKILL:
                break
        log.warning(
            "a query text exceeded the limits of the parser",
            form=question.form.value,
            chars=len(question.text),
            exit=code,
        )
        return TOO_LARGE

    def close(self) -> int | None:
        """End the process and return its exit code; the next ``read_all`` starts another one."""
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is None:
            return None
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.terminate()  # it exceeded the time, and nothing else kills it
            return process.wait()

    def _ask(self, questions: Sequence[Question]) -> list[MinedKeys] | None:
        """Return the answers of the child process; None if it has ended or does not answer."""
        connection = self._connection or self._start()
        try:
            connection.send(questions)
            if not connection.poll(TEXT_WAIT_S):
                return None
            answers: list[MinedKeys] = connection.recv()
        except (EOFError, OSError):
            return None
        return [
            replace(each, keys=tuple((self._tables[table.name], key) for table, key in each.keys))
            for each in answers
        ]

    def _start(self) -> Connection[Any, Any]:
        ours, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "streaming.mining.text_reader", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._connection = ours
        try:
            ours.send(self._settings)
            if ours.poll(START_S):
                ours.recv()
                return ours
        except (EOFError, OSError):
            pass
        raise MinerEnded("the process that reads query texts did not start", exit=self.close())
