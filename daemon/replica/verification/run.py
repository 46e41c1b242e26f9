"""One run of ``tideline verify``: verifies the tables and, on request, repairs those that differ.

A repair loads the tables again through the running daemon, while the other tables continue, and verifies them
once more. A load replaces the whole table on the target with its state at one event, so it repairs every kind
of difference, including a table that only one side has. A load does not repair a difference of the database
itself, which is only reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from daemon.config.model import Config
from daemon.replica.policies import STATE_KIND
from daemon.replica.requests import ask_policy
from daemon.replica.verification.following import ReplicaFollowing, open_following
from daemon.replica.verification.session import open_row_comparison, open_verifier
from daemon.state_directory.directory import state_path
from daemon.status.model import DaemonStatus
from handlers.metastore.client import Metastore
from handlers.replication.verification.findings import Outcome, TableResult
from handlers.replication.verification.verifier import Verifier
from state.errors import InvalidRequest, NotFound
from state.pieces import in_pieces
from state.value_text import count_text
from streaming.settings import SparkSettings


@dataclass(frozen=True, slots=True)
class Request:
    """The scope of a verification."""

    policy: str
    tables: tuple[str, ...] = ()
    """Empty for all tables and the database."""
    checksums: bool = False
    repair: bool = False
    spark: SparkSettings | None = None
    """How to start Spark to compare rows; None without a comparison of rows."""


def run_verification(
    config: Config,
    request: Request,
    status: Callable[[], DaemonStatus] | None,
    show: Callable[[str], None],
) -> tuple[list[TableResult], list[str]]:
    """Verify and repair as requested.

    Returns the outcome of each table, and the tables for which loads were requested. ``status`` reads the
    status of the daemon that follows the policy; None if no daemon runs here. ``show`` receives lines of
    progress.
    """
    with _open_run(config, request, status, show) as run:
        results = run.verify_all()
        tables = find_repairable(results) if request.repair else []
        if not tables or run.following.is_live:
            return (results if not tables else _merge(results, _repair(config, run, tables))), tables
    _request_without_daemon(config, request.policy, tables)
    with _open_run(config, request, status, show) as run:
        return _merge(results, run.verify_tables(tables)), tables


def _repair(config: Config, run: _Run, tables: Sequence[str]) -> list[TableResult]:
    """Let the running daemon load the tables, then verify them. Raises InvalidRequest if the loads wait for
    an operator.
    """
    policy = run.request.policy
    waits_for = request_loads(tables, lambda request: ask_policy(config, policy, request))
    if waits_for is not None:
        raise InvalidRequest(
            "the tables that differ wait for their loads, which cannot begin",
            policy=policy,
            tables=list(tables[:TABLES_PER_REQUEST]),
            hint=f"{waits_for} Then verify again.",
        )
    return Repair(run.following, run.verify_tables, run.show).finish(tables)


def _request_without_daemon(config: Config, policy: str, tables: Sequence[str]) -> None:
    """Record load requests in the state file, for the daemon to serve when it follows the policy again."""
    if not state_path(config.state.dir, STATE_KIND, policy).exists():
        raise NotFound(
            "the policy has no state here, so its tables cannot be repaired",
            policy=policy,
            state_dir=str(config.state.dir),
            hint="Run the command on the machine of the daemon that follows the policy.",
        )
    request_loads(tables, lambda request: ask_policy(config, policy, request))


def _merge(results: Sequence[TableResult], newer: Sequence[TableResult]) -> list[TableResult]:
    """Return the results, with those in ``newer`` replacing earlier results of the same tables."""
    by_name = {result.table: result for result in newer}
    return [by_name.get(result.table, result) for result in results]


@dataclass(frozen=True, slots=True)
class _Run:
    """The verifier and the connections of one run."""

    verifier: Verifier
    following: ReplicaFollowing
    request: Request
    show: Callable[[str], None]

    def verify_all(self) -> list[TableResult]:
        """Verify the requested scope."""
        names = self._choose()
        database = [] if self.request.tables else [self.verifier.verify_database()]
        return database + self.verify_tables(names)

    def verify_tables(self, names: Sequence[str]) -> list[TableResult]:
        """Verify the named tables."""
        results: list[TableResult] = []
        for done, name in enumerate(names):
            self.show(_progress_text(done, len(names), results, name))
            results.append(self.verifier.verify_table(name))
        return results

    def _choose(self) -> list[str]:
        """Return the tables to verify. Raises NotFound for a named table that neither side has or the policy
        does not cover.
        """
        names = self.verifier.table_names()
        if not self.request.tables:
            return names
        requested = [name.lower().rpartition(".")[2] for name in self.request.tables]
        unknown = [name for name in requested if name not in names]
        if unknown:
            raise NotFound(
                "neither side has the table, or the policy does not cover it",
                policy=self.request.policy,
                tables=unknown,
                hint="Check the name, and the patterns of the policy.",
            )
        return requested


@contextmanager
def _open_run(
    config: Config,
    request: Request,
    status: Callable[[], DaemonStatus] | None,
    show: Callable[[str], None],
) -> Iterator[_Run]:
    policy = config.policy(request.policy)
    with ExitStack() as stack:
        source = stack.enter_context(Metastore(config.sources[policy.source].metastore))
        target = stack.enter_context(Metastore(config.targets[policy.target].metastore))
        following = stack.enter_context(
            open_following(
                config,
                request.policy,
                target,
                status,
                waiting=lambda event_id, position: show(
                    f"waiting for the replica: event {event_id}, it is at {position}"
                ),
            )
        )
        following.position()  # refuse a policy without replica before Spark starts
        compare_rows = None
        if request.spark is not None:
            show("starting Spark")
            compare_rows = stack.enter_context(open_row_comparison(request.spark))
        verifier = stack.enter_context(
            open_verifier(
                config,
                request.policy,
                (source, target),
                following,
                checksums=request.checksums,
                compare_rows=compare_rows,
            )
        )
        yield _Run(verifier, following, request, show)


TABLES_PER_REQUEST: Final = 200
"""Requests to the daemon have a maximum size."""
POLL_S: Final = 0.5
GRACE_S: Final = 15.0
"""How long after the request a table may still have its former state, because the daemon's status is older
than its answer."""


def find_repairable(results: Sequence[TableResult]) -> list[str]:
    """Return the tables that differ."""
    return [result.table for result in results if result.outcome is Outcome.DIFFERS and result.table]


def request_loads(tables: Sequence[str], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> str | None:
    """Request a load of each table; ``ask`` sends a request to the policy.

    Returns the action of an operator that the loads wait for, None if they wait for none.
    """
    waits_for = None
    for piece in in_pieces(tables, TABLES_PER_REQUEST):
        waits_for = ask({"do": "load", "tables": list(piece), "reason": "repair"}).get("waits_for")
    return waits_for


@dataclass(slots=True)
class Repair:
    """Waits for requested loads, then verifies their tables."""

    following: ReplicaFollowing
    verify: Callable[[Sequence[str]], list[TableResult]]
    show: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def finish(self, tables: Sequence[str]) -> list[TableResult]:
        """Wait for the loads of ``tables``, then verify the tables and return the outcomes."""
        grace_until = self.clock() + GRACE_S
        while True:
            self._wait_for_loads(tables)
            results = self.verify(tables)
            loading = self.following.loading()
            if all(result.outcome is Outcome.EQUAL for result in results):
                return results
            if self.clock() >= grace_until and not any(result.table in loading for result in results):
                return results
            self.pause(POLL_S)

    def _wait_for_loads(self, tables: Sequence[str]) -> None:
        while True:
            loading = self.following.loading()
            waiting = [table for table in tables if table in loading]
            if not waiting:
                return
            self.show(
                f"{len(tables) - len(waiting)} of {count_text(len(tables), 'table')} loaded; {waiting[0]}"
            )
            self.pause(POLL_S)


def _progress_text(done: int, total: int, results: Sequence[TableResult], current: str) -> str:
    differing = sum(result.outcome is Outcome.DIFFERS for result in results)
    files = sum(result.files for result in results)
    done_text = f"{done} of {count_text(total, 'table')}, {count_text(files, 'file')}"
    return f"{done_text}, {differing} differing; {current}"
