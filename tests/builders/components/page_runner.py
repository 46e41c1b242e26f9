"""Runs the commands of a tutorial as they stand on its page.

The title of a code block says where it runs: ``sh`` in a shell, with the title "second terminal" as a process
that continues until an empty block "stop"; ``sql`` with "source" or "target" in a Hive session; ``yaml`` with
a file name becomes that file. A block of "rows" after a query is its expected result, and one of "output"
after commands is what they print; the runner waits for both. In an output, a number stands for any number,
and ``...`` for the rest of the line, or for any lines if it stands alone. The addresses of the page are
replaced by those of the test. "install", "client" (on another machine) and "cluster" (in a running pod) are
not run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session


DOCS: Final = Path(__file__).parents[3] / "docs"
BLOCK: Final = re.compile(r'(?ms)^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$')
VISIBLE_S: Final = 90.0
COMMAND_S: Final = 180.0
TIDELINE: Final = f'#!/bin/sh\nexec {sys.executable} -m daemon "$@"\n'
"""The program of this build."""


def cut_section(page: str, heading: str) -> str:
    """Return one section of a page, without those that follow it."""
    _, found, rest = page.partition(f"\n## {heading}\n")
    assert found, f"the page has no section {heading!r}"
    return rest.partition("\n## ")[0]


def output_pattern(expected: str) -> re.Pattern[str]:
    """Return the pattern of an output: its words, with any numbers, units and widths of columns."""
    lines = []
    for line in expected.strip().splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        words = [_word_pattern(word) for word in line.split()]
        lines.append(r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*\n")
    return re.compile(r"\s*" + "".join(lines) + r"\s*")


def _word_pattern(word: str) -> str:
    if word.endswith("..."):
        return _word_pattern(word[:-3]) + ".*"
    if word in {"B", "KiB", "MiB"}:
        return "(?:B|KiB|MiB)"
    return re.sub(r"(?:\d[\d,]*(?:\\?\.\d+)?)", r"\\d[\\d,]*(?:\\.\\d+)?", re.escape(word))


@dataclass(frozen=True, slots=True)
class Block:
    """One code block."""

    language: str
    title: str
    text: str


def read_blocks(page: str) -> Iterator[Block]:
    """Yield the code blocks of a page in order."""
    for language, title, text in BLOCK.findall(page):
        yield Block(language, title, text)


class PageRunner:
    """Runs blocks in one directory; ends the processes that continue when its ``with`` block ends."""

    def __init__(
        self,
        directory: Path,
        sql: Mapping[str, str],
        addresses: Mapping[str, str],
        programs: Mapping[str, str] | None = None,
        builds: Mapping[str, str] | None = None,
    ) -> None:
        """``sql`` has the addresses of the engines "source" and "target", ``addresses`` the replacements,
        ``programs`` the scripts of further commands, and ``builds`` those of ``tideline`` by the title of the
        block that installs it."""
        self._directory = directory
        self._sql = sql
        self._addresses = addresses
        self._running: list[subprocess.Popen[bytes]] = []
        self._builds = builds or {}
        bin_directory = self._bin_directory = directory / "bin"
        bin_directory.mkdir()
        for name, script in {"tideline": TIDELINE, **(programs or {})}.items():
            (bin_directory / name).write_text(script)
            (bin_directory / name).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{bin_directory}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def run(self, page: str) -> None:
        """Run all blocks; raise AssertionError with the block that failed and its output."""
        blocks = list(read_blocks(page))
        for number, block in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < len(blocks) else None
            match block.language, block.title:
                case "sh", "install" | "client" | "cluster":
                    pass
                case "sh", title if title in self._builds:
                    (self._bin_directory / "tideline").write_text(self._builds[title])
                case "sh", "second terminal":
                    self._start(block)
                case "sh", "stop":
                    self._stop()
                case "sh", "":
                    output = following.text if following and following.title == "output" else None
                    self._run_shell(block, output)
                case "sql", side:
                    rows = following.text if following and following.title == "rows" else None
                    self._run_sql(self._sql[side], block.text, rows)
                case "yaml" | "json" | "properties", name if name:
                    (self._directory / name).write_text(self._replace(block.text))
                case "text", _:
                    pass
                case _:
                    raise AssertionError(f"a block that the runner does not know: {block}")

    def _replace(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = text.replace(name, address)
        return text

    def _start(self, block: Block) -> None:
        log = (self._directory / "second-terminal.log").open("ab")
        # Tests that a shell runs in the background inherit that interrupts are ignored.
        interruptible = ["env", "--default-signal=INT"]
        command = [*interruptible, "bash", "-c", f"exec {self._replace(block.text).strip()}"]
        with log:
            self._running.append(
                subprocess.Popen(
                    command, cwd=self._directory, env=self._environment, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def _stop(self) -> None:
        """End the processes of the second terminal, as ctrl-c does."""
        while self._running:
            process = self._running.pop()
            process.send_signal(signal.SIGINT)
            process.wait(60)

    def _run_shell(self, block: Block, output: str | None) -> None:
        """Run commands; if a process was started before, repeat them until it answers, and as expected."""
        deadline_s = time.monotonic() + (VISIBLE_S if self._running else 0)
        expected = None if output is None else output_pattern(self._replace(output))
        while (done := self._call(block)).returncode != 0 or not (
            expected is None or expected.fullmatch(done.stdout.rstrip() + "\n")
        ):
            assert time.monotonic() < deadline_s, (
                f"{block.text}\n{done.returncode}\n{done.stdout}\n{done.stderr}\nexpected:\n{output}"
            )
            time.sleep(0.2)

    def _call(self, block: Block) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._replace(block.text)],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            input="y\n",  # the answer to a question of the command
            timeout=COMMAND_S,
            check=False,
        )

    def _run_sql(self, address: str, text: str, rows: str | None) -> None:
        """Run statements; the last one is repeated until it returns ``rows``."""
        *statements, last = [part.strip() for part in text.split(";\n") if part.strip()]
        with Session.connect(address) as session:
            for statement in statements:
                session.run(statement)
            if rows is None:
                session.run(last.rstrip(";"))
                return
            deadline_s = time.monotonic() + VISIBLE_S
            while (result := self._read(session, last)) != rows:
                assert time.monotonic() < deadline_s, f"{last}\n{result}\nexpected:\n{rows}"
                time.sleep(0.2)

    @staticmethod
    def _read(session: Session, query: str) -> str:
        try:
            return "".join("\t".join(row) + "\n" for row in session.rows(query.rstrip(";")))
        except SqlFailed as error:  # a table that is not there yet
            return str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._directory / "bin")
