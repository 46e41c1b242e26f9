"""Verifications that a daemon runs for clients elsewhere, and the command that starts and follows one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from daemon.http.actions import Audit
from daemon.process.redaction import use_secrets
from daemon.replica.http.verifications import verification_routes
from daemon.replica.verification.run import Request
from daemon.replica.verification.runs import KEPT, LISTED_MAX, RUNS_MAX, VerificationRun, VerificationRuns
from daemon.replica.verification.status import SHOWN_MAX
from daemon.service.command_line import call
from handlers.replication.verification.findings import Difference, Outcome, TableResult
from state.errors import InvalidRequest, MetastoreUnavailable, NotFound, Overloaded
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import HOST, OPERATOR, acted, asked, operated
from tests.builders.daemon.loops import daemon_status, first_that


CONFIG = config_of({})
EQUAL = TableResult(table="a", outcome=Outcome.EQUAL, event_id=7)
DIFFERS = TableResult(
    table="b",
    outcome=Outcome.DIFFERS,
    event_id=7,
    differences=tuple(Difference("file", f"f{number:02}", "1", None) for number in range(SHOWN_MAX + 1)),
    difference_count=SHOWN_MAX + 1,
)


class Verifier:
    """Verifies by returning results, once it may; each policy's first line of progress is its name."""

    def __init__(self, *results: TableResult) -> None:
        self.results = list(results)
        self.may_end = threading.Event()
        self.began = threading.Semaphore(0)
        self.requests: list[Request] = []

    def __call__(
        self, _config: object, request: Request, _status: object, show: Callable[[str], None]
    ) -> tuple[list[TableResult], list[str]]:
        self.requests.append(request)
        show(f"{request.policy}: 0 of 2 tables")
        self.began.release()
        self.may_end.wait()
        show("the end")
        return self.results, ["b"] if request.repair else []


@pytest.fixture
def verifier() -> Iterator[Verifier]:
    verifier = Verifier(EQUAL, DIFFERS)
    yield verifier
    verifier.may_end.set()


def runs_of(verify: Any) -> VerificationRuns:
    return VerificationRuns(CONFIG, daemon_status, verify, clock=lambda: 60.0)


def ended(runs: VerificationRuns, policy: str) -> dict[str, Any]:
    return first_that(lambda run: run["state"] != "running", lambda: runs.read(policy))


def test_a_verification_shows_its_progress_and_then_the_unequal_tables(verifier: Verifier) -> None:
    runs = runs_of(verifier)
    started = runs.start(Request("shop", ("b",), repair=True))
    verifier.began.acquire()
    assert (started["state"], started["number"], started["started_s"]) == ("running", 1, 60)
    assert runs.read("shop")["progress"] == "shop: 0 of 2 tables"
    verifier.may_end.set()
    run = ended(runs, "shop")
    assert (run["state"], run["ended_s"], run["problem"]) == ("done", 60, None)
    report = run["report"]
    assert (report["counts"]["equal"], report["loads_requested"], report["equal"]) == (1, ["b"], False)
    (table,) = report["tables"]
    assert (table["table"], len(table["differences"]), table["difference_count"]) == (
        "b",
        SHOWN_MAX,
        SHOWN_MAX + 1,
    )


def test_a_report_lists_a_bounded_number_of_tables() -> None:
    verifier = Verifier(*[DIFFERS] * (LISTED_MAX + 1))
    verifier.may_end.set()
    runs = runs_of(verifier)
    runs.start(Request("shop"))
    report = ended(runs, "shop")["report"]
    assert (len(report["tables"]), report["counts"]["differs"]) == (LISTED_MAX, LISTED_MAX + 1)


def test_a_policy_is_verified_once_at_a_time_and_few_policies_together(verifier: Verifier) -> None:
    runs = runs_of(verifier)
    for number in range(RUNS_MAX):
        runs.start(Request(f"p{number}"))
    with pytest.raises(InvalidRequest, match="already"):
        runs.start(Request("p0"))
    with pytest.raises(Overloaded):
        runs.start(Request("other"))
    with pytest.raises(NotFound):
        runs.read("other")
    verifier.may_end.set()
    ended(runs, "p0")
    assert runs.start(Request("p0"))["number"] == RUNS_MAX + 1
    ended(runs, "p0")


def test_the_reports_of_few_policies_are_kept() -> None:
    verifier = Verifier(EQUAL)
    verifier.may_end.set()
    runs = runs_of(verifier)
    for number in range(KEPT + 2):
        runs.start(Request(f"p{number}"))
        ended(runs, f"p{number}")
    with pytest.raises(NotFound):
        runs.read("p0")
    assert runs.read(f"p{KEPT + 1}")["state"] == "done"


@pytest.mark.parametrize(
    ("error", "code"),
    [(MetastoreUnavailable("down", host="h"), "metastore-unavailable"), (ValueError("no"), "refused")],
)
def test_a_verification_that_fails_says_why(error: Exception, code: str) -> None:
    def fail(*_: object) -> Any:
        raise error

    runs = runs_of(fail)
    runs.start(Request("shop"))
    run = ended(runs, "shop")
    assert (run["state"], run["problem"]["code"], run["report"]) == ("failed", code, None)
    check_form(TypeAdapter(VerificationRun), json.dumps(run))


def test_a_verification_ends_soon_after_the_daemon_stops(verifier: Verifier) -> None:
    runs = runs_of(verifier)
    runs.start(Request("shop"))
    verifier.began.acquire()
    runs.close()
    verifier.may_end.set()
    assert ended(runs, "shop")["problem"]["message"] == "the daemon is stopping"


@pytest.fixture
def secret() -> Iterator[str]:
    use_secrets(["planted-word"])
    yield "planted-word"
    use_secrets(())


def test_a_report_has_no_secrets(secret: str) -> None:
    differs = TableResult(
        table="t", outcome=Outcome.DIFFERS, differences=(Difference("parameter", "p", secret, None),)
    )
    verifier = Verifier(differs)
    verifier.may_end.set()
    runs = runs_of(verifier)
    runs.start(Request("shop"))
    assert secret not in json.dumps(ended(runs, "shop"))


@pytest.fixture
def port(tmp_path: Path, verifier: Verifier) -> Iterator[int]:
    with operated(tmp_path, *verification_routes(runs_of(verifier), lambda: ["shop"], Audit())) as server:
        yield server.port


def test_the_action_is_answered_when_the_verification_has_begun(port: int, verifier: Verifier) -> None:
    assert acted(port, "/api/v1/policies/shop/verify", token=None)[0] == 401
    assert acted(port, "/api/v1/policies/other/verify")[0] == 404
    assert asked(port, "/api/v1/policies/shop/verification").status == 404
    status, begun = acted(port, "/api/v1/policies/shop/verify", {"tables": ["b"], "checksums": True})
    assert (status, begun["state"]) == (202, "running")
    assert acted(port, "/api/v1/policies/shop/verify")[0] == 400
    verifier.began.acquire()
    assert verifier.requests == [Request("shop", ("b",), checksums=True)]
    shown = asked(port, "/api/v1/policies/shop/verification", token=OPERATOR).text
    check_form(TypeAdapter(VerificationRun), shown)
    assert json.loads(shown)["state"] == "running"


def test_the_command_starts_a_verification_elsewhere_and_prints_its_report(
    port: int,
    verifier: Verifier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verifier.may_end.set()
    monkeypatch.setattr("daemon.replica.verification.commands.POLL_S", 0.0)
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "operator")]
    assert call(["verify", "shop", *where]) == 1
    text = capsys.readouterr().out
    assert "file f00: '1' at the source, missing on the target" in text
    assert text.endswith("policy shop: 1 equal, 1 differs; 1 table not listed\n")
    verifier.results = [EQUAL]
    assert call(["verify", "shop", *where, "-o", "json"]) == 0
    assert call(["verify", "shop", "--rows", *where]) == 2
    assert call(["verify", "other", *where]) == 1
    assert "does not follow the policy" in capsys.readouterr().err
