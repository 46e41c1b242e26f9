"""Flat event tables as a capability: one loop for each table, which runs a Spark driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command, Parts


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.capability import Runtime
    from daemon.config.document import Document, Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection
    from daemon.keylog.settings import KeyedTable
    from daemon.status.model import StatusSection


class Flat(Capability):
    """JSON events that Spark splits into typed columns."""

    heading = "Flat tables"
    commands = (
        Command(
            "executor",
            "daemon.flat.commands",
            "Run a Spark executor; Spark calls this in its pods.",
            is_internal=True,
        ),
        Command("split", "daemon.flat.commands", "Run, seal, backfill and plan flat tables."),
    )

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``flat``."""
        from daemon.flat.settings import FLAT

        return (FLAT,)

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield contradictions between flat tables, and between them and other sections."""
        from daemon.flat.checks import cross_problems

        return cross_problems(document)

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the section ``flats``."""
        from daemon.flat.status import FLATS

        return (FLATS,)

    def build(self, runtime: Runtime) -> Parts:
        """Return a loop for each table whose driver this daemon runs, and the routes of all tables."""
        from daemon.flat.answers import FlatAnswers
        from daemon.flat.loop import build_flat
        from daemon.flat.metrics import FlatMetrics
        from daemon.flat.page import flat_routes
        from daemon.flat.settings import FLAT
        from daemon.flat.status import FLATS
        from daemon.keylog.routes import key_log_routes
        from daemon.status.reporter import SectionPart

        metrics, tables = FlatMetrics(runtime.registry), FLAT.of(runtime.config)
        run = (
            []
            if runtime.relays_only
            else [name for name, flat in tables.items() if flat.run and flat.is_written]
        )
        flats = [build_flat(runtime, name, metrics) for name in run]
        answers = FlatAnswers(runtime.config, lambda: FLATS.of(runtime.status()))
        return Parts(
            jobs=[flat.job for flat in flats],
            sections=[SectionPart(FLATS, lambda moment: tuple(flat.status(moment) for flat in flats))],
            routes=[
                *flat_routes(answers),
                *key_log_routes(answers.keyed_table, answers.open_log, runtime.audit),
            ]
            if tables
            else (),
            close=[answers.close],
        )

    def live_problems(self, config: Config) -> Iterable[Problem]:
        """Check the databases and the source directories of the tables."""
        from daemon.flat.checks import flat_problems

        return flat_problems(config)

    def keyed_table(self, config: Config, name: str) -> KeyedTable:
        """Return a flat table's raw table and the rules for its keys; raise ConfigError if it is unknown."""
        from daemon.flat.settings import flat_config

        return flat_config(config, name).keyed()
