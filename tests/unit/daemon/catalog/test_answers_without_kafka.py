"""While the topic cannot be read, a catalog answers from its last state, and the answers say so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.catalog import loop
from daemon.catalog.answers import SourceView
from daemon.catalog.loop import CatalogPart, build_catalog
from daemon.catalog.queries import Answer
from daemon.consumer import projection
from daemon.consumer.projection import ProjectionStatus
from state.errors import KafkaUnavailable
from state.event_log.positions import Position


class TableView(SourceView):
    """One table, as of event 7."""

    def tables(self) -> Collection[str]:
        return ["db.a"]

    def rows(self, source: str, tables: Sequence[str]) -> list[Answer]:
        raise NotImplementedError

    def counts(self) -> Answer:
        raise NotImplementedError


class QuietHeartbeat:
    stopping = threading.Event()

    def beat(self) -> None: ...
    def answered(self) -> None: ...
    def following(self) -> None: ...
    def progress(self) -> None: ...


@pytest.fixture
def catalog_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bool], CatalogPart]:
    def refuse(*_: object, **__: object) -> None:
        raise KafkaUnavailable("no broker answers")

    def make(has_state: bool) -> CatalogPart:
        projection = SimpleNamespace(
            name="catalog:lake",
            source="lake",
            read_state=lambda: has_state,
            position=Position(7),
            quarantined=lambda: ("db.b",),
            failures=tuple,
            close=lambda: None,
        )
        view = TableView(event_id=7, waiting={}, quarantined={})
        opened = SimpleNamespace(
            projection=projection,
            branches={"tables": SimpleNamespace(view=lambda: view)},
            do=None,
            close=lambda: None,
        )
        monkeypatch.setattr(loop, "open_catalog", lambda *_: opened)
        monkeypatch.setattr(loop, "subscribe", refuse)
        config = SimpleNamespace(state=SimpleNamespace(dir=tmp_path))
        tools: Any = SimpleNamespace(
            config=config,
            metrics=SimpleNamespace(projections=None),
            moved=lambda _projection: None,
            readers=SimpleNamespace(of=lambda _source: None),
        )
        return build_catalog(tools, "lake")

    return make


def test_a_catalog_with_a_state_answers_from_it_and_says_that_it_is_stale(
    catalog_of: Callable[[bool], CatalogPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = catalog_of(True)
    assert part.view("tables") is None, "not opened yet"
    heartbeat: Any = QuietHeartbeat()
    for _ in range(2):
        with pytest.raises(KafkaUnavailable):
            list(part.job.run(heartbeat) or ())
        view = part.view("tables")
        assert (view.event_id, view.stale) == (7, True)
    assert part.part.counts() is None
    status = part.part.status()
    assert (status.position, status.quarantined) == (Position(7), ("db.b",))

    def follow(
        _: object, __: object, ___: object, report: Callable[[ProjectionStatus], None], ____: object
    ) -> None:
        status = ProjectionStatus("catalog:lake", "lake", "following", Position(8), None)
        monkeypatch.setattr(loop, "MEASURE_S", 1e9)
        report(status)
        assert not part.view("tables").stale
        raise KafkaUnavailable("the broker went away")

    monkeypatch.setattr(loop, "subscribe", lambda *_, **__: SimpleNamespace(status=None))
    monkeypatch.setattr(projection, "follow", follow)
    with pytest.raises(KafkaUnavailable):
        list(part.job.run(heartbeat) or ())
    assert part.view("tables").stale, "until the loop runs again"


def test_a_catalog_that_never_had_a_state_has_no_answers(catalog_of: Callable[[bool], CatalogPart]) -> None:
    part = catalog_of(False)
    heartbeat: Any = QuietHeartbeat()
    with pytest.raises(KafkaUnavailable):
        list(part.job.run(heartbeat) or ())
    assert part.view("tables") is None
    assert part.part.status().position is None
