"""``tideline keys list | mine | log | rules | whitelist | skip | pin | unpin | forget``.

The commands use the database of the key log, so they run on any machine that can connect to it. With
``--url``, all of them except ``mine`` and ``forget`` go through a daemon.
"""

from __future__ import annotations

import dataclasses
import getpass
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import quote

import click

from daemon.config.quantities import Quantity, WholeNumber
from daemon.keylog.settings import KEYLOG, ColumnTypeName
from daemon.status.address import daemon_option
from daemon.terminal.application import (
    CommandGroup,
    application,
    config_option,
    echo,
    json_option,
    load_config,
)


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon.config.model import Config
    from daemon.keylog.answers import Answer
    from daemon.keylog.settings import KeyedTable
    from daemon.status.address import DaemonAddress
    from streaming.keylog.log import KeyLog


DECIDE_S: Final = 60.0
_remove_option = click.option("--remove", is_flag=True, help="Remove the decision.")


@click.group(cls=CommandGroup)
def keys() -> None:
    """Show which JSON keys users query, and decide about the keys of flat tables."""


@keys.command("list")
@click.argument("table")
@click.option("--why", is_flag=True, help="Show every key, with the reason why it is a column or not.")
@click.option("--limit", default=200, show_default=True, type=WholeNumber(1), help="Number of lines.")
@config_option
@json_option
@daemon_option
def list_keys(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    table: str, why: bool, limit: int, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Show the keys of the flat TABLE (its db.table, or its name in the configuration) by rank."""
    from daemon.keylog.answers import read_keys
    from daemon.keys.text import keys_text

    answer = _read("keys", read_keys, table, config_path, daemon)
    echo(answer, as_json, lambda found: keys_text(found, why=why, limit=limit))


@keys.command("log")
@click.option("--raw-table", help="Only keys of this raw table (db.table).")
@click.option("--key", help="Only this key, as $.a.b or a.b.")
@click.option("--user", help="Only queries of this user.")
@click.option("--source", help="Only queries from this source.")
@click.option(
    "--days", default=30, show_default=True, type=WholeNumber(1), help="Number of days to look back."
)
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=WholeNumber(1, 100_000),
    help="Number of rows, newest first; with --url at most 1000.",
)
@config_option
@json_option
@daemon_option
def show_log(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    raw_table: str | None,
    key: str | None,
    user: str | None,
    source: str | None,
    days: int,
    limit: int,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Show which user queried which key: one row per key, user, query and day."""
    from daemon.keys.text import log_text

    if daemon is not None:
        from daemon.status.client import fetch_json

        texts = {"raw_table": raw_table, "key": key, "user": user, "source": source}
        answer = fetch_json(daemon, "/api/v1/key-log", {**texts, "days": str(days), "limit": str(limit)})
    else:
        from daemon.config.fields import parse_key
        from daemon.keylog.opening import open_key_log

        with closing(open_key_log(_config(config_path))) as log:
            from daemon.keylog.answers import read_log
            from streaming.keylog.log_reader import LogFilter

            log_filter = LogFilter(raw_table, user, source, None if key is None else parse_key(key), days)
            answer = read_log(log, log_filter, limit)
    echo(answer, as_json, log_text)


@keys.command()
@click.argument("sources", nargs=-1)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read queries from standard input instead.")
@click.option("--user", default="", help="User of the queries on standard input.")
@click.option(
    "--every", "every_s", type=Quantity("s", 1), help="Repeat after this time, in seconds or as 10m."
)
@click.option("--progress-fd", type=WholeNumber(3), help="Write passes as JSON lines to this descriptor.")
@config_option
@json_option
@click.pass_context
def mine(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    ctx: click.Context,
    sources: tuple[str, ...],
    from_stdin: bool,
    user: str,
    every_s: float | None,
    progress_fd: int | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Read the new queries of the SOURCES (by default all
    configured ones) and record the keys that they request.

    Exits with 1 if it read a source only in part; it reads the others nevertheless. --progress-fd requires
    --every and reads all sources; the command then also stops at once when its standard input closes, because
    the process that started it has ended.
    """
    if progress_fd is not None:
        _mine_as_child(config_path, progress_fd, every_s, is_limited=bool(sources or from_stdin))
        return
    from daemon.keylog.opening import open_key_log
    from daemon.process.signals import stop_signals

    config = _config(config_path)
    with closing(open_key_log(config)) as log, stop_signals() as stopped:
        from daemon.keys.mining import mine_all, open_miner, open_sources, open_standard_input
        from daemon.keys.text import passes_text

        query_sources = [open_standard_input(user)] if from_stdin else open_sources(config, sources)
        with open_miner(config) as miner:
            while True:
                passes = mine_all(config, miner, log, query_sources, stopped.is_set)
                echo(passes, as_json, passes_text)
                if every_s is None or from_stdin or stopped.wait(every_s):
                    break
    ctx.exit(1 if any(each["error"] for each in passes) else 0)


def _mine_as_child(
    config_path: Path | None, progress_fd: int, every_s: float | None, *, is_limited: bool
) -> None:
    from daemon.keys.mining import run_miner
    from daemon.process.signals import end_with_parent
    from streaming.driver.progress import write_lines_to

    if every_s is None or is_limited:
        raise click.UsageError("--progress-fd requires --every, and excludes SOURCES and --stdin")
    end_with_parent()
    run_miner(lambda: _config(config_path), write_lines_to(progress_fd), every_s)


@keys.command("rules")
@click.argument("table")
@config_option
@json_option
@daemon_option
def show_rules(table: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Show the decisions about keys of the flat TABLE, from the configuration and from users."""
    from daemon.keylog.answers import list_rules
    from daemon.keys.text import rules_text

    echo(_read("rules", list_rules, table, config_path, daemon), as_json, rules_text)


def _read(
    path: str,
    read: Callable[[KeyLog, KeyedTable], Answer],
    table: str,
    config_path: Path | None,
    daemon: DaemonAddress | None,
) -> Answer:
    """Return an answer about a flat table, from the daemon or from the database of the key log."""
    from daemon.keylog.opening import open_key_log
    from daemon.status.client import fetch_json

    if daemon is not None:
        return fetch_json(daemon, f"/api/v1/flat/{quote(table, safe='')}/{path}", {})
    config = _config(config_path)
    flat = _table(config, table)
    with closing(open_key_log(config)) as log:
        return read(log, flat)


@keys.command()
@click.argument("table")
@click.argument("key")
@_remove_option
@config_option
@json_option
@daemon_option
def whitelist(  # noqa: PLR0913, PLR0917 - one parameter per option is click\'s way
    table: str, key: str, remove: bool, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Make KEY ($.a.b or a.b) a column of the flat TABLE even if no user queries it."""
    _decide((config_path, daemon), table, "always", key, as_json=as_json, remove=remove)


@keys.command()
@click.argument("table")
@click.argument("pattern")
@_remove_option
@config_option
@json_option
@daemon_option
def skip(  # noqa: PLR0913, PLR0917 - one parameter per option is click\'s way
    table: str,
    pattern: str,
    remove: bool,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Exclude keys that match PATTERN ('$.debug.*') from the columns of the flat TABLE;
    existing columns become empty.
    """
    _decide((config_path, daemon), table, "skip", pattern, as_json=as_json, remove=remove)


@keys.command()
@click.argument("table")
@click.argument("key")
@click.argument("type_name", metavar="TYPE", type=click.Choice(get_args(ColumnTypeName)))
@config_option
@json_option
@daemon_option
def pin(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    table: str,
    key: str,
    type_name: ColumnTypeName,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Give the column of KEY in the flat TABLE this TYPE, independently of its values."""
    _decide((config_path, daemon), table, "pin", key, as_json=as_json, type_name=type_name)


@keys.command()
@click.argument("table")
@click.argument("key")
@config_option
@json_option
@daemon_option
def unpin(
    table: str, key: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Let the values determine the type of KEY in the flat TABLE again."""
    _decide((config_path, daemon), table, "pin", key, as_json=as_json, remove=True)


@keys.command()
@click.option("--days", type=WholeNumber(1), help="Keep this many days (default: keylog.retention_days).")
@click.option("--dry-run", is_flag=True, help="Only count.")
@config_option
@json_option
def forget(days: int | None, dry_run: bool, config_path: Path | None, as_json: bool) -> None:
    """Delete requests that are too old to count for any table."""
    from daemon.keylog.opening import open_key_log

    config = _config(config_path)
    with closing(open_key_log(config)) as log:
        from streaming.keylog import retention

        keep = days or KEYLOG.of(config).retention_days
        counts = retention.count_old_rows(log, keep) if dry_run else retention.delete_old_rows(log, keep)
    answer = {"keep_days": keep, "dry_run": dry_run, **dataclasses.asdict(counts)}
    echo(answer, as_json, _deletion_text)


def _decide(  # noqa: PLR0913 - shared by four commands
    served_by: tuple[Path | None, DaemonAddress | None],
    table: str,
    kind: Literal["always", "skip", "pin"],
    key: str,
    *,
    as_json: bool,
    remove: bool = False,
    type_name: ColumnTypeName | None = None,
) -> None:
    """Store or remove a decision; the driver reads it before its next batch."""
    config_path, daemon = served_by
    if daemon is not None:
        from daemon.status.client import send_action

        request = {"do": "decide", "kind": kind, "key": key, "type": type_name, "remove": remove}
        answer = send_action(daemon, f"/api/v1/flat/{quote(table, safe='')}", request, timeout_s=DECIDE_S)
    else:
        from daemon.keylog.opening import open_key_log
        from daemon.keylog.routes import DecisionParameters, decide

        config = _config(config_path)
        flat = _table(config, table)
        given = DecisionParameters(kind, key, type_name, remove)
        with closing(open_key_log(config)) as log:
            answer = decide(log, flat, given, getpass.getuser())
    echo(answer, as_json, _decision_text)


def _table(config: Config, name: str) -> KeyedTable:
    from daemon.keys.capability import Keys

    return application().capability(Keys).tables.keyed_table(config, name)


def _config(config_path: Path | None) -> Config:
    return load_config(config_path)


def _deletion_text(counts: dict[str, Any]) -> str:
    did = "would be" if counts["dry_run"] else "were"
    rest = "" if counts["is_complete"] else "; more remain: run the command again"
    return (
        f"{counts['rows']} rows and {counts['keys']} keys older than {counts['keep_days']} days {did} "
        f"deleted{rest}"
    )


def _decision_text(done: dict[str, Any]) -> str:
    decision = f"{done['kind']} {done['key']}" + (f" as {done['type']}" if done["type"] else "")
    if done["removed"] is None:
        return f"{done['table']}: {decision} is stored; the driver applies it with its next batch"
    return f"{done['table']}: {decision} {'is removed' if done['removed'] else 'was not stored'}"
