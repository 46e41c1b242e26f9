"""``tideline verify``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from daemon.terminal.application import application, load_config
from daemon.terminal.options import config_option, echo_json, json_option


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon.config.model import Config
    from handlers.replication.verification.findings import TableResult
    from handlers.replication.verification.verifier import Verifier
    from streaming.settings import SparkSettings


@click.command()
@click.argument("policy")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--rows", is_flag=True, help="Compare counts and hashes of rows too, through Spark.")
@click.option(
    "--spark-master", default="local[2]", show_default=True, help="Where Spark runs, as Spark's own setting."
)
@click.option("--spark-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--checksums", is_flag=True, help="Compare the contents of files too, which reads all of them.")
@config_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    policy: str,
    tables: tuple[str, ...],
    config_path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the replica of POLICY with its source, or only the named tables. Changes nothing.

    Works beside a running daemon: a table that changes meanwhile is compared again after the replica has applied the change. The exit
    code is 0 if every table is equal, and 1 if a table differs or could not be compared.
    """
    from daemon.replica.verification.session import require_policy
    from daemon.replica.verification.text import is_equal, report, report_text

    config = load_config(config_path)
    require_policy(config, policy)
    results = run_verification(config, _request(policy, tables, **options), _Progress(quiet=as_json))
    if as_json:
        echo_json(report(policy, results))
    else:
        click.echo(report_text(policy, results))
    ctx.exit(0 if is_equal(results) else 1)


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify."""

    policy: str
    tables: tuple[str, ...] = ()
    """Empty for all tables and the database."""
    checksums: bool = False
    spark: SparkSettings | None = None
    """How Spark is started to compare rows; None if rows are not compared."""


def _request(
    policy: str,
    tables: tuple[str, ...],
    *,
    checksums: bool,
    rows: bool,
    spark_master: str,
    spark_memory: str,
    spark_conf: tuple[str, ...],
) -> Request:
    from streaming.settings import SparkSettings

    if not all("=" in each for each in spark_conf):
        raise click.UsageError("--spark-conf must be KEY=VALUE")
    conf = dict(each.split("=", 1) for each in spark_conf)
    spark = SparkSettings(master=spark_master, driver_memory=spark_memory, conf=conf) if rows else None
    return Request(policy, tables, checksums=checksums, spark=spark)


class _Progress:
    """Shows one line on a terminal, and nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._stream = sys.stderr
        self._shown = not quiet and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            self._stream.write(f"\r\x1b[2K{text[:200]}")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        self.show("")


def run_verification(config: Config, request: Request, progress: _Progress) -> list[TableResult]:
    """Verify as requested, and return the outcome of each table."""
    from daemon.replica.verification.following import open_following
    from daemon.replica.verification.session import open_row_comparison, open_verifier
    from handlers.metastore.client import Metastore

    policy = config.policies[request.policy]
    with ExitStack() as stack:
        source = stack.enter_context(Metastore(config.sources[policy.source].metastore))
        target = stack.enter_context(Metastore(config.targets[policy.target].metastore))
        sections = application().status_sections()
        following = stack.enter_context(open_following(config, request.policy, target, sections))
        following.waiting = lambda event_id, position: progress.show(
            f"waiting for the replica: event {event_id:,}, it is at {position:,}"
        )
        compare_rows = None
        if request.spark is not None:
            progress.show("starting Spark")
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
        stack.callback(progress.clear)
        return _verify_tables(verifier, request, progress.show)


def _verify_tables(verifier: Verifier, request: Request, show: Callable[[str], None]) -> list[TableResult]:
    from daemon.replica.verification.text import progress_text

    names = _choose(verifier, request)
    results = [] if request.tables else [verifier.verify_database()]
    for done, name in enumerate(names):
        show(progress_text(done, len(names), results, name))
        results.append(verifier.verify_table(name))
    return results


def _choose(verifier: Verifier, request: Request) -> list[str]:
    """Return the tables to verify; raise NotFound for a named one that neither side has or the policy does not cover."""
    from state.errors import NotFound

    names = verifier.table_names()
    if not request.tables:
        return names
    chosen = [name.lower().rpartition(".")[2] for name in request.tables]
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise NotFound(
            "neither side has the table, or the policy does not cover it",
            policy=request.policy,
            tables=unknown,
            hint="Check the name, and the patterns of the policy.",
        )
    return chosen
