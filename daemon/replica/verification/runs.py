"""Verifications that the daemon runs on behalf of HTTP clients, each in its own thread.

A verification takes minutes or hours, so the action that starts it returns at once, and clients read its
progress and report afterwards. Of a report, the daemon keeps only the tables that are not equal, with the
first differences of each, because a policy may have 100,000 tables.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import structlog

from daemon.config.model import Config
from daemon.process.inbox import describe_defect, error_to_json
from daemon.process.redaction import redactor
from daemon.replica.verification.report import VerificationReport, make_report
from daemon.replica.verification.run import Request, run_verification
from daemon.replica.verification.status import SHOWN_MAX
from daemon.status.model import DaemonStatus
from handlers.replication.verification.findings import Outcome, TableResult
from state.errors import InvalidRequest, NotFound, Overloaded, TidelineError


log = structlog.get_logger(__name__)
RUNS_MAX: Final = 2
"""Verifications at the same time, of all policies."""
KEPT: Final = 16
"""Maximum number of policies with a last report in memory."""
LISTED_MAX: Final = 1_000
"""Maximum number of listed tables of a report."""
Verify = Callable[
    [Config, Request, Callable[[], DaemonStatus], Callable[[str], None]], tuple[list[TableResult], list[str]]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProblem:
    """The error of a verification, in the form of an API problem."""

    code: str
    message: str
    hint: str
    context: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRun:
    """A verification: its progress while it runs, afterwards its report or its error."""

    policy: str
    number: int
    """Counts the verifications since the start of the daemon."""
    state: Literal["running", "done", "failed"]
    started_s: int
    """Unix time."""
    ended_s: int | None = None
    progress: str = ""
    """The last line of progress."""
    report: VerificationReport | None = None
    problem: RunProblem | None = None


class VerificationRuns:
    """The verifications that one daemon runs. Thread-safe."""

    def __init__(
        self,
        config: Config,
        status: Callable[[], DaemonStatus],
        verify: Verify = run_verification,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._status = status
        self._verify = verify
        self._clock = clock
        self._lock = threading.Lock()
        self._number = 0
        self._runs: dict[str, dict[str, Any]] = {}
        self._stopping = False

    def start(self, request: Request) -> dict[str, Any]:
        """Start a verification and return it (``VerificationRun``).

        Raises InvalidRequest if a verification of the policy runs, and Overloaded if too many others run.
        """
        with self._lock:
            running = [each["policy"] for each in self._runs.values() if each["state"] == "running"]
            if request.policy in running:
                hint = "Wait until it has ended, and start another one."
                raise InvalidRequest("the policy is being verified already", policy=request.policy, hint=hint)
            if len(running) >= RUNS_MAX:
                raise Overloaded("too many policies are being verified", limit=RUNS_MAX, policies=running)
            self._number += 1
            run = VerificationRun(
                policy=request.policy, number=self._number, state="running", started_s=int(self._clock())
            )
            self._runs.pop(request.policy, None)
            self._runs[request.policy] = asdict(run)
            self._forget_old()
        threading.Thread(
            target=self._run, args=(request,), name=f"verify:{request.policy}", daemon=True
        ).start()
        return asdict(run)

    def read(self, policy: str) -> dict[str, Any]:
        """Return the last verification of a policy (``VerificationRun``); raise NotFound."""
        with self._lock:
            run = self._runs.get(policy)
            if run is None:
                raise NotFound(
                    "the policy was not verified since the start of the daemon", policy=policy[:200]
                )
            return dict(run)

    def close(self) -> None:
        """Stop each verification at its next line of progress, without waiting."""
        self._stopping = True

    def _forget_old(self) -> None:
        ended = [policy for policy, each in self._runs.items() if each["state"] != "running"]
        for policy in ended[: max(0, len(self._runs) - KEPT)]:
            del self._runs[policy]

    def _run(self, request: Request) -> None:
        try:
            results, repaired = self._verify(
                self._config, request, self._status, lambda line: self._show(request.policy, line)
            )
            unequal = [result for result in results if result.outcome is not Outcome.EQUAL]
            listed = [
                replace(result, differences=result.differences[:SHOWN_MAX]) for result in unequal[:LISTED_MAX]
            ]
            report = make_report(request.policy, results, repaired, listed)
            self._end(request.policy, state="done", report=redactor().texts(report))
        except TidelineError as error:
            self._end(request.policy, state="failed", problem=error_to_json(error))
        except Exception as error:
            log.exception("a verification failed unexpectedly", policy=request.policy)
            refused = describe_defect("the verification failed unexpectedly", error)
            self._end(request.policy, state="failed", problem=error_to_json(refused))

    def _show(self, policy: str, line: str) -> None:
        if self._stopping:
            raise Overloaded("the daemon is stopping")
        with self._lock:
            self._runs[policy]["progress"] = line

    def _end(self, policy: str, **result: Any) -> None:
        with self._lock:
            self._runs[policy] |= {"ended_s": int(self._clock()), **result}
