"""Shows the replication from end to end, on real components.

Starts Kafka, two Hive 4 clusters and Tideline between them. Runs a workload on the source and shows the
events on their way. Then reads the same tables through SQL on both clusters and shows them side by side. The
exit code is 0 only if everything is equal and no file of the aborted transaction is on the target. ``KEEP=1``
leaves everything running and prints the addresses. With ``FROM=3.1`` the source is a Hive 3.1; rows and write
ids are compared then, because definitions and statistics of the two versions differ by design.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from dev.demo.compare import Side, compare_databases, find_aborted_files
from dev.demo.replicator import Replicator
from dev.demo.view import View, build_comparison_table
from dev.demo.workload import ABORTED_TABLE, QUERIES, Writer, steps
from dev.stack import preflight
from dev.stack.cli import fetch_stack
from dev.stack.cluster import Stack
from dev.stack.endpoints import Endpoints
from dev.stack.errors import ComponentFailed, StackError
from dev.stack.hive.java_build import HIVE_3, NEWEST
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore


DB: Final = "shop"
DIRECTORY: Final = Path("build") / "demo"
CATCH_UP_S: Final = 60.0
REFRESH_S: Final = 0.25


def main() -> int:
    """Run the demo and return the exit code."""
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    hive = os.environ.get("FROM") or NEWEST
    if hive not in {HIVE_3, NEWEST}:
        console.print(f"[red]FROM={escape(hive)}:[/] must be {HIVE_3} or {NEWEST}")
        return 2
    try:
        preflight.check_all(DIRECTORY)
        fetch_stack()
        return _run(console, hive, keep=bool(os.environ.get("KEEP")))
    except StackError as error:
        console.print(f"[red]failed:[/] {escape(str(error))}")
        return 1


def _run(console: Console, hive: str, *, keep: bool) -> int:
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    # Hive 3.1 fails to merge the column statistics of a second insert into a plain table.
    extra = {"hive.stats.column.autogather": "false"} if hive == HIVE_3 else {}
    stack = Stack(DIRECTORY / "stack", source=ClusterSettings(hive=hive, extra=extra))
    replicator: Replicator | None = None
    try:
        endpoints = _start_stack(console, stack, hive)
        replicator = Replicator(endpoints, DIRECTORY.resolve(), db=DB)
        console.print(replicator.prepare())
        replicator.start()
        console.print(f"Tideline is running; its status page is http://{replicator.address}/\n")
        _watch(console, endpoints, replicator)
        code = _judge(console, endpoints, replicator, of_rows=hive == HIVE_3)
        if keep:
            _keep_running(console, endpoints, replicator)
        return code
    finally:
        if replicator is not None:
            replicator.stop()
        stack.stop()


def _start_stack(console: Console, stack: Stack, hive: str) -> Endpoints:
    began_s = time.monotonic()
    clusters = f"Kafka and two clusters (Hive {hive} and {NEWEST}, metastore and SQL engine each)"
    with console.status(f"starting {clusters}"):
        stack.start(engines=True)
    console.print(f"{clusters} are ready after {time.monotonic() - began_s:.0f} s")
    endpoints = stack.endpoints()
    endpoints.write(stack.directory)
    return endpoints


def _watch(console: Console, endpoints: Endpoints, replicator: Replicator) -> None:
    """Run the workload and show the progress until the replica has caught up.

    Raises ComponentFailed if it does not.
    """
    replicator.wait_until_following()
    with Session.connect(endpoints.source.sql) as session, View(console) as view:
        writer = Writer(session, steps(DB))
        writer.start()
        pause = threading.Event()
        while not writer.finished:
            view.show(writer.rows, replicator.progress())
            pause.wait(REFRESH_S)
        if (failed := writer.failed_step()) is not None:
            raise ComponentFailed(f"the step '{failed.step.title}' failed: {failed.error}")
        # Do not use the daemon's own count of events behind, which lacks events that its relay has not read
        # yet.
        with Metastore(endpoints.source.metastore) as metastore:
            newest = metastore.current_event_id()
        deadline = time.monotonic() + CATCH_UP_S
        while ((progress := replicator.progress()).applied_event or 0) < newest:
            view.show(writer.rows, progress)
            if time.monotonic() > deadline or replicator.pid is None:
                raise ComponentFailed(
                    f"the replica did not catch up: {progress.problem}\n{replicator.log_tail()}"
                )
            pause.wait(REFRESH_S)
        view.show(writer.rows, progress)


def _judge(console: Console, endpoints: Endpoints, replicator: Replicator, *, of_rows: bool) -> int:
    """Compare both clusters, with ``of_rows`` only their rows and write ids. Shows the result and returns the
    exit code.
    """
    with (
        Session.connect(endpoints.source.sql) as source_sql,
        Session.connect(endpoints.target.sql) as target_sql,
        Metastore(endpoints.source.metastore) as source_metastore,
        Metastore(endpoints.target.metastore) as target_metastore,
    ):
        source = Side(source_metastore, source_sql, replicator.db)
        target = Side(target_metastore, target_sql, replicator.target_db)
        with console.status("reading both clusters"):
            comparison = compare_databases(source, target, QUERIES, of_rows=of_rows)
            aborted = find_aborted_files(source, target, ABORTED_TABLE)
    console.print(build_comparison_table(comparison, source.db, target.db))
    for line in comparison.list_differences():
        console.print(f"[red]differs:[/] {escape(line)}")
    console.print(
        f"files under the aborted write ids {list(aborted.write_ids)} of {ABORTED_TABLE}: "
        f"{len(aborted.at_source)} at the source, {len(aborted.on_target)} on the target (which soon forgets "
        "the ids too, because nothing refers to them)",
        highlight=False,
        markup=False,
    )
    console.print(replicator.command("status"), highlight=False, markup=False)
    progress = replicator.progress()
    if not comparison.equal or not aborted.proven or progress.quarantined:
        console.print("[bold red]NOT equal")
        return 1
    console.print(
        f"[bold green]equal[/]: {len(steps(replicator.db))} statements ran on the source. Tideline applied "
        f"their {progress.applied_event} events to the target and copied {progress.copied_files} files, none "
        f"of them from the aborted transaction. SQL reads the same rows from all {len(comparison.tables)} "
        "tables on both clusters, and the ACID tables have the same write ids.",
        highlight=False,
    )
    return 0


def _keep_running(console: Console, endpoints: Endpoints, replicator: Replicator) -> None:
    """Print the addresses and wait for Ctrl-C."""
    console.print("\neverything keeps running; press ctrl-c to stop it", highlight=False)
    for what, where in (
        ("Tideline", f"http://{replicator.address}/"),
        ("configuration", replicator.config_file),
        ("Kafka", endpoints.kafka),
        ("source metastore", endpoints.source.metastore),
        ("target metastore", endpoints.target.metastore),
        ("read_roots", ", ".join(f"file://{each}" for each in endpoints.source.directories)),
        ("SQL", f"python -m dev.stack sql --dir {endpoints.directory} source 'show databases'"),
    ):
        console.print(f"  {what:17} {where}", highlight=False)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("stopping")


if __name__ == "__main__":
    sys.exit(main())
