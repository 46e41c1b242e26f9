"""A Spark session in a process of its own, since Spark's Hive client cannot change its metastore within one
JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


PROGRAM = Path(__file__).with_name("spark_statements.py")


class SparkSession:
    """The program ``spark_statements.py``."""

    def __init__(self, uri: str, directory: Path) -> None:
        self._log = (directory / "spark.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), uri, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=directory,
        )

    def ask(self, statement: str) -> dict[str, Any]:
        """Run a statement and return its rows and its plan; raise AssertionError if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"{statement}: {answer['error']}"
        return answer

    def run(self, statement: str) -> list[list[str]]:
        """Run a statement and return its rows."""
        rows: list[list[str]] = self.ask(statement)["rows"]
        return rows

    def close(self) -> None:
        """Stop the session."""
        self._process.communicate()
        self._log.close()


@contextmanager
def spark_at(uri: str, directory: Path) -> Iterator[SparkSession]:
    """Provide a session whose metastore is at ``uri``."""
    directory.mkdir(parents=True, exist_ok=True)
    session = SparkSession(uri, directory)
    try:
        yield session
    finally:
        session.close()
