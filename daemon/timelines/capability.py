"""Timelines as a capability: a branch of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.catalog.branch import BranchAction, BranchContext, OpenSource
    from daemon.catalog.queries import Query
    from daemon.config.document import Document, Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection
    from daemon.timelines.answers import TimelineAnswers
    from daemon.timelines.branch import TimelineBranch
    from daemon.waits.conditions import WaitKind


class Timelines(Capability):
    """Answers which partitions exist or cover a time range (``daemon.catalog.branch.CatalogBranch``)."""

    reads_store = False
    name = "timelines"
    heading = "Timelines and partition index"
    commands = (
        Command(
            "timeline",
            "daemon.timelines.commands",
            "Show which partitions exist and how they cover a range of time.",
        ),
    )

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``facts``."""
        from daemon.timelines.settings import FACTS

        return (FACTS,)

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield the problems between facts and catalogs."""
        from daemon.timelines.settings import cross_problems

        return cross_problems(document)

    def opener(self, registry: CollectorRegistry) -> Callable[[BranchContext], TimelineBranch]:
        """Return the function that opens the timelines of a source. The metrics of the catalog include
        theirs.
        """
        from daemon.timelines.branch import TimelineBranch

        del registry
        return TimelineBranch

    def serves(self, config: Config, source: str) -> bool:
        """Return True: every catalog has timelines."""
        del config, source
        return True

    def answers(self, sources: Sequence[OpenSource], newest: Callable[[str], int | None]) -> TimelineAnswers:
        """Return the answers to queries about the timelines of ``sources``."""
        from daemon.timelines.answers import TimelineAnswers

        return TimelineAnswers(sources, newest)

    def pages(self, answers: TimelineAnswers) -> Sequence[Route]:
        """Return the pages of the site."""
        from daemon.timelines.pages import timeline_pages

        return timeline_pages(answers)

    def wait_kind(self, sources: Sequence[OpenSource]) -> WaitKind[Any]:
        """Return the kind of wait for ``sources``."""
        from daemon.timelines.waits import range_kind

        return range_kind(sources)

    def queries(self) -> Sequence[type[Query]]:
        """Return the queries of ``/api/v1/timelines``."""
        from daemon.timelines.queries import QUERIES

        return QUERIES

    def actions(self) -> Sequence[BranchAction]:
        """Return the actions on one table."""
        from daemon.timelines.actions import ACTIONS

        return ACTIONS
