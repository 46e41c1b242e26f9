"""A trial (``tideline split try``): makes a flat table of a user's own files in one directory, without
configuration.

The directory holds everything: the files to read (hard links or copies), copies of the query files, the key
log, the table with its catalog, the page, and a configuration for the other commands. A trial changes nothing
outside its directory, so removing the directory undoes it.
"""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from daemon.config.model import Config
from daemon.flat.answers import FlatAnswers
from daemon.flat.driver import mine_query_files, spark_commands
from daemon.flat.driver_settings import flat_settings
from daemon.flat.page import flat_page
from daemon.flat.trial.queries import find_members, find_queries, guess_raw_table, read_queries
from daemon.flat.trial.report import Trial, read_samples
from daemon.flat.trial.sample import TimeKey, choose_keys, find_time_key, read_sample, separate_documents
from state.columns.demand import Demand
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.sniffing import sniff
from state.errors import ConfigError
from streaming.mining.model import RawTable
from streaming.settings import Documents, FlatSettings


NAME: Final = "events"
"""Name of the table in the configuration of a trial."""
TABLE: Final = f"default.{NAME}"
ROWS: Final = "rows"
_YEAR_S: Final = 365 * 86_400
_DAYS_MAX: Final = 36_500


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """The options of a trial."""

    files: Sequence[Path]
    queries: Sequence[Path]
    directory: Path
    time: KeyPath | None = None


def run_trial(order: TrialOrder, progress: Callable[[Mapping[str, Any]], None]) -> Trial:
    """Make the table. Raises ConfigError if the directory exists or Spark cannot start here, and BadInput for
    files without events.
    """
    commands = spark_commands()
    from streaming.driver.installation import require_installation

    require_installation()
    lines = read_sample(order.files)
    documents = separate_documents(lines)
    time = find_time_key(documents, order.time)
    queries = find_queries(order.queries)
    raw = guess_raw_table(queries)
    read = read_queries(queries, raw) if raw else []
    demand = Demand() if raw else choose_keys(documents)
    members = find_members(read, sniff(documents, FlatRules()).keys)
    whitelist = {time.key, *members, *(each.key for each in demand.selected)}
    directory = _make_directory(order, queries)
    path = directory / "tideline.yaml"
    holds = Documents.MANY if len(documents) > len(lines) else Documents.ONE
    path.write_text(_config_text(directory, time, raw, whitelist, holds))
    config = _load(path)
    mine_query_files(config)
    settings = flat_settings(config, NAME)
    counts: Counter[str] = Counter()

    def listen(event: Mapping[str, Any]) -> None:
        progress(event)
        counts.update({ROWS: event.get(ROWS, 0)} | event.get("dead_letters", {}))

    commands.run(settings, listen, once=True)
    rows = counts.pop(ROWS, 0)
    letters = {reason: count for reason, count in counts.items() if count}
    trial = _describe(config, settings, directory, time, raw, letters)
    left_out = [(key.text, each.reason) for key, each in demand.decisions.items() if key not in whitelist]
    return replace(
        trial,
        rows_left=rows - sum(letters.values()),
        left_out=[*trial.left_out, *left_out],
        queries=[
            {"path": each.path, "keys": [key.text for key in each.keys], "problem": each.problem}
            for each in read
        ],
    )


def open_page(page: str, *, always: bool) -> None:
    """Open the page in a browser; without ``always``, only if the command runs in a terminal on a desktop."""
    has_desktop = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if always or (sys.stdout.isatty() and has_desktop):
        webbrowser.open(f"file://{page}")


def _make_directory(order: TrialOrder, queries: Sequence[Path]) -> Path:
    directory = order.directory.absolute()
    if directory.exists():
        raise ConfigError(
            "the output directory exists already",
            directory=str(directory),
            hint="Remove it, or choose another one with --into.",
        )
    landing, copies = directory / "landing", directory / "queries"
    try:
        landing.mkdir(parents=True)
        copies.mkdir()
    except OSError as error:
        raise ConfigError(
            "the output directory cannot be created",
            directory=str(directory),
            reason=error.strerror,
            hint="Choose another one with --into.",
        ) from error
    for number, path in enumerate(order.files):
        _link(path, landing / f"{number}-{path.name.lstrip('._')}")
    for number, path in enumerate(queries):
        shutil.copyfile(path, copies / f"{number}-{path.stem}.sql")
    return directory


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _config_text(
    directory: Path, time: TimeKey, raw: RawTable | None, whitelist: set[KeyPath], documents: Documents
) -> str:
    """Return the text of the configuration, with which the driver keeps events of any age and seals hours at
    once.
    """
    table = {
        "table": TABLE,
        "raw_table": "default.raw" if raw is None else raw.name,
        "raw_files": f"{directory}/landing",
        "location": f"{directory}/table",
        "checkpoint": f"{directory}/checkpoint",
        "source": {
            "kind": "directory",
            "path": f"{directory}/landing",
            "files_per_batch": 100_000,
            "documents": documents.value,
        },
        "event_time": {
            "key": time.key.text,
            "unit": time.unit.value,
            "lateness_s": 0,
            "grace_s": _YEAR_S,
            "too_late": "hour",
        },
        "rules": {
            "whitelist": sorted(key.text for key in whitelist),
            "retention_days": _DAYS_MAX,
            "empty_days": _DAYS_MAX,
            "probation_values": 1,
        },
        "sealing": {"old_files_s": 0},
        "limits": {"sample_rows": 20_000},
        "trigger_s": 1,
    }
    config: dict[str, Any] = {"state": {"dir": f"{directory}/state"}, "flat": {NAME: table}}
    if raw is not None:
        source = {"kind": "sql-files", "path": f"{directory}/queries", "user": getpass.getuser()}
        config["mining"] = {
            "raw_tables": {raw.name: {"json_column": raw.json_column}},
            "sources": {"queries": source},
        }
    head = "# Written by 'tideline split try'. docs/CONFIG.md describes all settings.\n"
    return head + yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _load(path: Path) -> Config:
    from daemon.terminal.application import load_config

    return load_config(path)


def _describe(  # noqa: PLR0913, PLR0917 - everything that the outcome is made from
    config: Config,
    settings: FlatSettings,
    directory: Path,
    time: TimeKey,
    raw: RawTable | None,
    letters: Mapping[str, int],
) -> Trial:
    from streaming.driver.local_catalog import build_conf

    with closing(FlatAnswers(config, tuple)) as answers:
        table = answers.show_table(NAME)
    page, properties = directory / "page.html", directory / "spark.conf"
    page.write_text(flat_page(table))
    properties.write_text("".join(f"{name} {value}\n" for name, value in build_conf(settings).items()))
    column = _choose_column(table["columns"], time.key.text)
    # S608: shown, never run
    query = f"SELECT `{column}`, count(*) FROM {NAME} GROUP BY 1 ORDER BY 2 DESC LIMIT 10"  # noqa: S608
    return Trial(
        name=NAME,
        table=table,
        time=time.key.text,
        unit=time.unit.value,
        raw_table="" if raw is None else raw.name,
        dead_letters=letters,
        samples=read_samples(f"{directory}/table/.dead-letters") if letters else {},
        rows_left=0,
        left_out=[(each["key"], each["reason"]) for each in table["candidates"] if each["reason"]],
        queries=(),
        directory=str(directory),
        page=str(page),
        config=str(directory / "tideline.yaml"),
        spark_sql=f"spark-sql --properties-file {shlex.quote(str(properties))} -e {shlex.quote(query)}",
        pyarrow=f"import tideline\nevents = tideline.open_dataset({str(directory / 'table')!r})\n"
        f"print(events.to_table(columns=[{column!r}]).group_by({column!r}).aggregate([([], 'count_all')]))",
    )


def _choose_column(columns: Sequence[Mapping[str, Any]], time: str) -> str:
    """Return the column for the example query: the text column with the most values, or else any column with
    the most.
    """
    live = [each for each in columns if each["key"] and each["state"] == "live" and each["key"] != time]
    fullest = max(live, key=lambda each: (each["type"] == "string", each["fill"] or 0), default=None)
    return "_rescued" if fullest is None else str(fullest["name"])
