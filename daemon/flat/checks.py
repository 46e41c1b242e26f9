"""What can be seen of flat tables on their metastores before a driver is started: part of ``tideline config check --live``.

A driver takes half a minute to find out that its database does not exist; this takes one call.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from daemon.config.problem import Problem
from daemon.flat.driver_settings import metastores_of
from daemon.flat.settings import FLAT
from handlers.metastore.client import Metastore
from handlers.metastore.hive_version import HiveVersion
from state.errors import NotFound, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.config.model import Config


TIMEOUT_S: Final = 10.0


class Asked(Protocol):
    """What is asked of a metastore; ``handlers.metastore.Metastore`` answers it."""

    @property
    def hive_version(self) -> HiveVersion:
        """The Hive version, as far as it matters."""

    def get_database(self, name: str) -> object:
        """The database; raises NotFound."""

    def close(self) -> None:
        """Close the connection."""


def flat_problems(config: Config, connect: Callable[[Sequence[str]], Asked] | None = None) -> list[Problem]:
    """Ask for the database of every flat table that is written; never raises, every failure is a problem."""
    open_one = connect or (lambda uris: Metastore(uris, connect_timeout_s=TIMEOUT_S, timeout_s=TIMEOUT_S))
    found: list[Problem] = []
    for name, flat in FLAT.of(config).items():
        uris = metastores_of(config, flat)
        if flat.is_written and uris:
            with closing(open_one(uris)) as metastore:
                found += _problems(metastore, name, flat.table.partition(".")[0])
    return found


def _problems(metastore: Asked, name: str, database: str) -> Iterator[Problem]:
    place, key = f"flat table {name}", f"flat.{name}.table"
    try:
        if metastore.hive_version < HiveVersion(4, 0):
            reason = "is in a metastore older than Hive 4"
            yield Problem(place, key, str(metastore.hive_version), reason, "flat tables need Hive 4")
        metastore.get_database(database)
    except NotFound:
        yield Problem(place, key, database, "is a database that does not exist", "create it first")
    except TidelineError as error:
        yield Problem(place, key, None, error.message, error.hint.rstrip("."))
