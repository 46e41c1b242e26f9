"""Keys as a capability: the commands about the key log, and the loop that runs the miner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from daemon.capability import Capability, Command, Parts


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.capability import Runtime
    from daemon.config.document import Document, Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection
    from daemon.keylog.settings import KeyedTable
    from daemon.status.model import StatusSection


class KeyedTables(Protocol):
    """Finds the flat tables whose columns follow the key log."""

    def keyed_table(self, config: Config, name: str) -> KeyedTable:
        """Return the table of this name; raise ConfigError for an unknown one."""


class Keys(Capability):
    """Which JSON keys users query, found in the texts of their queries."""

    heading = "Flat tables"
    commands = (
        Command("keys", "daemon.keys.commands", "Show which JSON keys users query, and decide about them."),
    )

    def __init__(self, tables: KeyedTables) -> None:
        self.tables = tables

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the sections ``keylog`` and ``mining``."""
        from daemon.keylog.settings import KEYLOG, MINING

        return KEYLOG, MINING

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield the problems between mining and the broker."""
        from daemon.keylog.settings import cross_problems

        return cross_problems(document)

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the section ``mining``."""
        from daemon.keys.status import MINING_STATUS

        return (MINING_STATUS,)

    def build(self, runtime: Runtime) -> Parts:
        """Return the miner's loop if the daemon mines."""
        from daemon.keylog.settings import MINING
        from daemon.keys.loop import LOOP, build_mining
        from daemon.keys.metrics import MiningMetrics
        from daemon.keys.status import MINING_STATUS
        from daemon.process.loops.loop import Job
        from daemon.status.reporter import SectionPart

        metrics = MiningMetrics(runtime.registry)
        if runtime.relays_only or MINING.of(runtime.config).every_s is None:
            return Parts(sections=[SectionPart(MINING_STATUS, lambda _: None)])
        miner = build_mining(runtime, metrics)
        status = SectionPart(MINING_STATUS, lambda moment: miner.status(moment.loops[LOOP]))
        return Parts(jobs=[Job(LOOP, miner.run)], sections=[status])
