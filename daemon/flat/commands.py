"""``tideline split try | run | prepare | seal | backfill | narrow | plan | files | view``: a flat table's
Spark driver, and its manual maintenance.

The daemon starts ``run`` for each flat table. ``seal`` and ``backfill`` need exclusive access to the table,
so stop its driver first (``flat.NAME.run: false``, or stop the daemon). ``plan``, ``files`` and ``view`` can
run in parallel with a driver.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daemon.config.quantities import WholeNumber
from daemon.terminal.application import CommandGroup, config_option, echo_json, json_option, print_text


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.config.model import Config
    from daemon.flat.driver import DriverOrder
    from streaming.settings import FlatSettings


@click.group(cls=CommandGroup)
def split() -> None:
    """Run, seal, backfill and plan flat tables: JSON events split into typed columns by Spark."""


@click.command()
def executor() -> None:
    """Run a Spark executor in a pod that Spark has created for a flat table (master k8s://).

    Spark calls this command itself, because driver and executors use the same image. The environment has the
    driver's address.
    """
    from streaming.driver.executor_pods import replace_process

    replace_process()


@split.command(name="try")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--queries",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file or a directory of SQL files; the keys that they read become columns (default: the most "
    "filled keys).",
)
@click.option(
    "--time", "time_key", help="Key of the event time, as $.a.b (default: recognized by its values)."
)
@click.option(
    "--into",
    default=Path("tideline-try"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="New directory for the table and everything else.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the table's page in a browser (default: on a desktop).",
)
@json_option
@click.pass_context
def try_(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    ctx: click.Context,
    files: tuple[Path, ...],
    queries: tuple[Path, ...],
    time_key: str | None,
    into: Path,
    opens: bool | None,
    as_json: bool,
) -> None:
    """Make a flat table of FILES (one JSON object in each line,
    also .gz) without any configuration, and show it.

    Needs Java 17 and the extra 'flat', and neither Kafka nor Hive. Exits with 1 if no valid event remains.
    """
    from daemon.flat.trial.first_try import TrialOrder, open_page, run_trial
    from daemon.flat.trial.report import trial_text
    from state.columns.paths import parse_column_key

    key = None if time_key is None else parse_column_key(time_key)
    trial = run_trial(TrialOrder(files, queries, into, key), _show_event)
    if as_json:
        echo_json(trial)
    else:
        print_text(trial_text(trial))
    if opens or (opens is None and not as_json):
        open_page(trial.page, always=bool(opens))
    ctx.exit(0 if trial.rows_left else 1)


@split.command()
@click.argument("table")
@click.option("--once", is_flag=True, help="Read the events that exist now, then exit.")
@click.option("--progress-fd", type=WholeNumber(3), help="Write events as JSON lines to this descriptor.")
@config_option
@json_option
def run(table: str, once: bool, progress_fd: int | None, config_path: Path | None, as_json: bool) -> None:
    """Read raw events into the flat TABLE (its db.table, or its name in the configuration) until SIGTERM.

    If the daemon does not mine queries (mining.every_s), it reads the SQL files of mining.sources first.

    The first SIGTERM or SIGINT stops it after the current batch, the second at once. With --progress-fd it
    also stops at once when its standard input closes, because the process that started it has then ended.
    """
    from daemon.flat.driver import run_driver

    if progress_fd is not None:
        from daemon.process.signals import end_with_parent
        from streaming.driver.progress import write_lines_to

        end_with_parent()
        run_driver(lambda: _order(config_path, table), write_lines_to(progress_fd), once=once)
    else:
        listener = _echo_event if as_json else _show_event
        run_driver(lambda: _order(config_path, table, mines=True), listener, once=once)


@split.command()
@json_option
def prepare(as_json: bool) -> None:
    """Store the classes that drivers load in an archive of this installation, so that drivers start faster.

    Takes about half a minute and 200 MB. Run it again after an update of Java or Spark; Java ignores an
    outdated archive.
    """
    from daemon.flat.driver import spark_commands

    path = spark_commands().prepare()
    if as_json:
        echo_json({"path": str(path), "bytes": path.stat().st_size})
    else:
        print_text(f"{path}: {path.stat().st_size / 1e6:.0f} MB; drivers of this installation use it")


@split.command()
@click.argument("table")
@config_option
@json_option
def seal(table: str, config_path: Path | None, as_json: bool) -> None:
    """Run all due maintenance of the flat TABLE:
    compact hours, widen columns, drop old hours, delete replaced files.
    """
    from daemon.flat.driver import spark_commands
    from daemon.flat.text import upkeep_text

    result = spark_commands().seal(_settings(config_path, table), _show_event)
    if as_json:
        echo_json(result)
    else:
        print_text(upkeep_text(result))


@split.command()
@click.argument("table")
@click.option(
    "--from", "first", help="First hour, as 2016-04-18-21 or 2016-04-18 (default: the table's first)."
)
@click.option("--to", "end", help="Hour after the last one (default: now).")
@click.option(
    "--any-number",
    is_flag=True,
    help="Use the events of the raw table even if it has more rows than the hour.",
)
@click.option("--key", help="Only hours without a value of this key, as $.a.b.")
@click.option(
    "--match",
    help="With --key: another key that identifies events, such as $.uuid. Only the column of --key is then "
    "computed.",
)
@config_option
@json_option
@click.pass_context
def backfill(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    ctx: click.Context,
    table: str,
    first: str | None,
    end: str | None,
    any_number: bool,
    key: str | None,
    match: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Split sealed hours of the flat TABLE again from the raw table,
    so that newer columns have values there too.

    Exits with 1 if an hour remains unchanged because the raw table does not have the same number of events.
    """
    from daemon.flat.driver import hours_between, spark_commands
    from daemon.flat.text import backfill_text
    from state.columns.paths import parse_column_key

    settings = _settings(config_path, table)
    if match is not None and key is None:
        raise click.UsageError("--match needs --key")
    column, by = (None if text is None else parse_column_key(text) for text in (key, match))
    hours = hours_between(first, end)
    results = spark_commands().backfill(
        settings, hours, _show_event, any_number=any_number, key=column, match=by
    )
    if as_json:
        echo_json(results)
    else:
        print_text(backfill_text(results))
    ctx.exit(0 if all(each.is_done for each in results) else 1)


@split.command()
@click.argument("table")
@click.argument("key")
@click.option(
    "--to",
    type=click.Choice(["tinyint", "smallint", "int", "bigint", "double"]),
    help="The type; by default the narrowest that holds all values.",
)
@config_option
@json_option
def narrow(table: str, key: str, to: str | None, config_path: Path | None, as_json: bool) -> None:
    """Make the STRING column of KEY in the flat TABLE numeric again, if all retained values are numbers.

    Rewrites all hours. If you interrupt it, the driver completes it between its batches.
    """
    from daemon.flat.driver import spark_commands
    from state.columns.paths import parse_column_key
    from state.columns.types import ColumnType

    settings, column = _settings(config_path, table), parse_column_key(key)
    target = None if to is None else ColumnType[to.upper()]
    type_name = spark_commands().narrow(settings, column, target, _show_event).hive
    if as_json:
        echo_json({"table": settings.name, "key": column.text, "type": type_name})
    else:
        print_text(f"{settings.name}: the column of {column.text} is {type_name}")


@split.command()
@click.argument("table")
@config_option
@json_option
def plan(table: str, config_path: Path | None, as_json: bool) -> None:
    """Show which columns of the flat TABLE the next batch would change, and why. Changes nothing."""
    from daemon.flat.driver import spark_commands
    from daemon.flat.text import plan_answer, plan_text

    settings = _settings(config_path, table)
    answer = plan_answer(settings.name, spark_commands().plan(settings))
    if as_json:
        echo_json(answer)
    else:
        print_text(plan_text(answer))


@split.command()
@click.argument("table")
@config_option
@json_option
def files(table: str, config_path: Path | None, as_json: bool) -> None:
    """List the current files of the flat TABLE, for readers without a metastore;
    --json adds columns and partition values.

    The directory of a table also has replaced and incomplete files. Listed files exist for
    sealing.old_files_s.
    """
    from daemon.flat.answers import list_current_files
    from daemon.flat.settings import flat_config

    config = _config(config_path)
    answer = list_current_files(config, flat_config(config, table))
    if as_json:
        echo_json(answer)
    else:
        for each in answer["files"]:
            print_text(each["path"])


@split.command()
@click.argument("table")
@click.option(
    "--name",
    help="Name of the view (default: flat.NAME.view, or the table's name with the suffix _compat).",
)
@config_option
@json_option
def view(table: str, name: str | None, config_path: Path | None, as_json: bool) -> None:
    """Write the view that keeps the former column names of the flat TABLE; needs no Spark."""
    from daemon.flat.driver import view_name, write_view
    from daemon.flat.settings import flat_config

    config = _config(config_path)
    summary = write_view(_settings(config_path, table), name or view_name(flat_config(config, table)))
    if as_json:
        echo_json(summary)
    else:
        did = "was written" if summary["changed"] else "was already up to date"
        print_text(
            f"{summary['view']} {did}: version {summary['version']}, {len(summary['old_names'])} former names"
        )


def _config(config_path: Path | None) -> Config:
    from daemon.terminal.application import load_config

    return load_config(config_path)


def _settings(config_path: Path | None, table: str) -> FlatSettings:
    from daemon.flat.driver_settings import flat_settings

    return flat_settings(_config(config_path), table)


def _order(config_path: Path | None, table: str, *, mines: bool = False) -> DriverOrder:
    from daemon.flat.driver import DriverOrder, mine_query_files
    from daemon.flat.driver_settings import flat_settings
    from daemon.flat.settings import flat_config

    config = _config(config_path)
    if mines and (queries := mine_query_files(config)):
        print_text(f"queries read: {queries}", err=True)
    return DriverOrder(flat_settings(config, table), flat_config(config, table).view)


def _show_event(event: Mapping[str, Any]) -> None:
    from daemon.flat.text import event_text

    print_text(event_text(event), err=True)


def _echo_event(event: Mapping[str, Any]) -> None:
    import orjson

    from daemon.terminal.layout import escape_json_controls

    sys.stdout.write(escape_json_controls(orjson.dumps(event).decode()) + "\n")
    sys.stdout.flush()
