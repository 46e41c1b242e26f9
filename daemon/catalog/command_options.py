"""Options, steps and texts that ``tideline partitions`` and ``tideline timeline`` share.

Both query the running daemon, or open the state that it left if none runs. ``--source``, ``--url``,
``--config`` and ``--json`` reach a command as one value, because no command needs them individually.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import application, config_option, echo, json_option, load_config


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from daemon.catalog.access import Access
    from daemon.catalog.branch import CatalogBranch
    from daemon.catalog.queries import Answer, Query
    from daemon.status.address import DaemonAddress


CHECK_ATTEMPTS: Final = 10
PAUSE_S: Final = 0.5
_source_option = click.option("--source", help="Name of the source, if several have the table.")


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The catalog that a command queries, and the form in which it prints answers."""

    source: str | None
    config_path: Path | None
    daemon: DaemonAddress | None = None
    as_json: bool = False

    def access(self, branch: CatalogBranch) -> AbstractContextManager[Access]:
        """Open access to the answers of ``branch``; raise the errors of ``catalog_access``."""
        from daemon.catalog.access import catalog_access, remote_access
        from daemon.catalog.capability import Catalog

        if self.daemon is not None:
            return nullcontext(remote_access(self.daemon, branch))
        catalog = application().capability(Catalog)
        return catalog_access(catalog.tools(load_config(self.config_path)), branch)

    def echo_answer(self, branch: CatalogBranch, query: Query, text: Callable[[Answer], str]) -> None:
        """Print the answer to one query."""
        with self.access(branch) as access:
            self.echo(access.answers.answer(query), text)

    def echo(self, answer: Answer, text: Callable[[Answer], str]) -> None:
        """Print an answer as JSON, or as the text that ``text`` returns."""
        echo(answer, self.as_json, text)


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--source``, ``--url`` and its companions, ``--config`` and ``--json``; pass their values as
    ``options``.
    """

    @wraps(command)
    def call(
        *args: Any,
        source: str | None,
        config_path: Path | None,
        daemon: DaemonAddress | None,
        as_json: bool,
        **others: Any,
    ) -> None:
        command(*args, options=CatalogOptions(source, config_path, daemon, as_json), **others)

    return _source_option(daemon_option(config_option(json_option(call))))


def check_table(access: Access, source: str | None, request: dict[str, Any]) -> dict[str, Any]:
    """Check one table. Repeat the check while the table differs and the daemon is behind or the source
    changes.
    """
    for attempt in range(CHECK_ATTEMPTS):
        result = access.do(source, request)
        settled = not result["drift"] or not result["moving"] or not access.live
        if settled or attempt == CHECK_ATTEMPTS - 1:
            break
        time.sleep(PAUSE_S)
    return result


def as_of(answer: Mapping[str, Any]) -> str:
    """Return a text with the event id that an answer reflects and the newest event id of the source."""
    newest = answer.get("current_event_id")
    return f"as of event {answer['event_id']}, source at {'?' if newest is None else newest}"


def summary_lines(answer: Answer, count: str) -> list[str]:
    """Return a line for each source with its counts, and a line for the tables that the list omits."""
    lines = []
    for source, row in answer["sources"].items():
        loading = f", {row['loading']} still loading" if row["loading"] else ""
        lines.append(f"{source}: {row['tables']} tables, {row[count]} {count}{loading}, {as_of(row)}")
    more = answer["total"] - len(answer["tables"])
    return [*lines, *more_lines(more, "tables", indent="")]


def more_lines(count: int, what: str, *, indent: str = "  … ") -> list[str]:
    """Return the line that counts the omitted entries, if there are any."""
    return [f"{indent}{count} more {what}"] if count > 0 else []
