"""The writer: runs the workload's steps on the source, one after another."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dev.stack.errors import SqlFailed


if TYPE_CHECKING:
    from collections.abc import Sequence

    from dev.demo.workload import Step
    from dev.stack.sql import Session


@dataclass(frozen=True, slots=True)
class Done:
    """One step, and how it went."""

    step: Step
    state: Literal["waiting", "running", "done", "wrong"] = "waiting"
    seconds: float = 0.0
    events: int = 0
    error: str = ""


def run_step(session: Session, step: Step) -> Done:
    """Run one step; ``wrong`` where it failed unasked, or succeeded where it had to fail."""
    for name, during, _ in step.settings:
        session.run(f"set {name}={during}")
    try:
        result = session.run(step.sql)
        done = Done(step, "wrong" if step.must_fail else "done", result.seconds, len(result.events))
    except SqlFailed as error:
        done = Done(step, "done" if step.must_fail else "wrong", error=str(error))
    for name, _, after in step.settings:
        session.run(f"set {name}={after}")
    return done


class Writer:
    """Runs steps in a thread; ``rows`` may be read by another one."""

    def __init__(self, session: Session, steps: Sequence[Step]) -> None:
        self._session = session
        self.rows = [Done(step) for step in steps]
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether every step was run, or one went wrong."""
        return not self._thread.is_alive()

    def wrong(self) -> Done | None:
        """Return the step that went wrong, if one did."""
        return next((row for row in self.rows if row.state == "wrong"), None)

    def _run(self) -> None:
        for number, row in enumerate(self.rows):
            self.rows[number] = replace(row, state="running")
            self.rows[number] = run_step(self._session, row.step)
            if self.rows[number].state == "wrong":
                return
