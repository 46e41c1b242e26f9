from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dev.stack.errors import ComponentFailed, SqlFailed
from dev.stack.hive.sql_session import LoggedEvent, Session


OK: dict[str, Any] = {"ok": True, "seconds": 0.5, "columns": [], "rows": [], "events": [], "code": 0}


@pytest.fixture
def engine() -> Iterator[Callable[..., tuple[Session, list[str]]]]:
    """An engine that gives the prepared answers, then hangs up."""
    threads: list[threading.Thread] = []
    sessions: list[Session] = []

    def start(*answers: dict[str, Any]) -> tuple[Session, list[str]]:
        server = socket.create_server(("127.0.0.1", 0))
        asked: list[str] = []

        def serve() -> None:
            with (
                server,
                server.accept()[0] as connection,
                connection.makefile("rw", encoding="utf-8") as stream,
            ):
                for answer in answers:
                    asked.append(json.loads(stream.readline()))
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        sessions.append(Session.connect(f"127.0.0.1:{server.getsockname()[1]}"))
        return sessions[-1], asked

    yield start
    for session in sessions:
        session.close()
    for thread in threads:
        thread.join(10)


def test_a_result_holds_columns_cells_seconds_and_events(
    engine: Callable[..., tuple[Session, list[str]]],
) -> None:
    answer = OK | {"columns": ["a", "b"], "rows": ["1\tx", "2\tNULL"], "events": [[7, "INSERT", "d", None]]}
    session, asked = engine(answer)
    result = session.run("select *\nfrom t")
    assert asked == ["select *\nfrom t"]
    assert (result.columns, result.rows, result.seconds) == (("a", "b"), (("1", "x"), ("2", "NULL")), 0.5)
    assert result.events == (LoggedEvent(7, "INSERT", "d", None),)
    assert result.event_types == ["INSERT"]


def test_a_failure_carries_the_statement_and_hives_number(
    engine: Callable[..., tuple[Session, list[str]]],
) -> None:
    session, _ = engine(OK | {"ok": False, "error": "SemanticException [Error 10087]: twice", "code": 40000})
    with pytest.raises(SqlFailed) as failure:
        session.run("from s insert into t")
    assert (failure.value.code, failure.value.sql) == (10087, "from s insert into t")


def test_an_engine_that_closes_the_connection_is_a_failed_component(
    engine: Callable[..., tuple[Session, list[str]]],
) -> None:
    session, _ = engine()
    with pytest.raises(ComponentFailed):
        session.run("select 1")


def test_a_script_is_split_at_semicolons_that_end_a_line(
    engine: Callable[..., tuple[Session, list[str]]],
) -> None:
    session, asked = engine(OK, OK | {"ok": False, "error": "no"}, OK)
    results = session.script("-- a comment\nselect ';' as a;\n-- fails\ndrop table x; \nselect 2")
    assert asked == ["select ';' as a", "drop table x", "select 2"]
    assert len(results) == 2


def test_a_statement_that_should_fail_and_succeeds_is_reported(
    engine: Callable[..., tuple[Session, list[str]]],
) -> None:
    session, _ = engine(OK)
    with pytest.raises(SqlFailed, match="must fail according to the script"):
        session.script("-- fails\nselect 1;\n")
