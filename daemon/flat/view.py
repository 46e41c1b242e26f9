"""The compatibility view of a flat table, written through the metastore: former column names go on giving values.

It needs no Spark, only the table as the metastore has it. A driver writes it anew when a batch has changed the columns; a view
that cannot be written stops nobody, it only stays as it was until the next change, and its output says why.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from state.errors import ConfigError, TidelineError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.flat.settings import FlatConfig
    from streaming.driver.progress import ProgressListener
    from streaming.settings import FlatSettings


def view_name(flat: FlatConfig) -> str:
    """Return the name of the table's view: as configured, else the table's own with ``_compat`` behind it."""
    return flat.view or f"{flat.table.partition('.')[2]}_compat"


def write_view(settings: FlatSettings, name: str) -> dict[str, Any]:
    """Make the view show the table as it is, with the former names that it knows; return what it shows.

    Raises ConfigError for a table in Spark's own catalog, NotFound without the table, InvalidRequest where another table has
    the view's name.
    """
    if not settings.metastores:
        raise ConfigError(
            "a compatibility view needs a metastore, and the table is in Spark's own catalog",
            table=settings.name,
        )
    from handlers.metastore.client import Metastore
    from streaming.table.catalog import HiveCatalog
    from streaming.table.compatibility_view import CompatibilityView
    from streaming.table.flat_table import parse_table

    with closing(Metastore(settings.metastores)) as metastore:
        catalog = HiveCatalog(metastore)
        state = parse_table(catalog.get_table(settings.database, settings.table))
        view = CompatibilityView(catalog, settings.database, settings.table, name)
        changed = view.refresh(state)
        return {
            "view": f"{settings.database}.{name}",
            "table": settings.name,
            "version": state.version,
            "changed": changed,
            "old_names": {old: where.text for old, where in view.old_names().items()},
        }


def keeping_view(settings: FlatSettings, name: str, progress: ProgressListener) -> ProgressListener:
    """Return ``progress`` with the view written after each event that tells of other columns."""
    shown: int | None = None

    def tell(event: Mapping[str, Any]) -> None:
        nonlocal shown
        progress(event)
        version = event.get("layout_version")
        if version is None or version == shown:
            return
        try:
            write_view(settings, name)
            shown = version
        except TidelineError as error:
            click.echo(f"the compatibility view {name} was not written: {error}", err=True)

    return tell
