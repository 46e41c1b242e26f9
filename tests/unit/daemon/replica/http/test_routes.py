"""Actions on policies over HTTP: who may do them, who serves them, and that they are recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from daemon.http.access import Access, Gate
from daemon.http.actions import ActionList, Audit, audit_route
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.http.transport.limits import BODY_BYTES_MAX
from daemon.process.inbox import Inbox, requests_directory
from daemon.replica.http import routes
from daemon.replica.http.policies import PolicyList, policy_list_routes
from daemon.replica.http.routes import policy_routes
from daemon.service.command_line import call
from handlers.replication.external.cycle import DIRECTORY_LIST
from handlers.replication.operations.compaction import CompactionState, RequestedCompaction
from state.errors import InvalidRequest
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import HOST, OPERATOR, acted, asked, served
from tests.builders.daemon.loops import daemon_status, eventually
from tests.builders.daemon.raw_clients import connect


VIEWER = "v" * 32
PAUSE = "/api/v1/policies/shop/pause"


class Policy:
    """A policy's loop, which serves its inbox."""

    def __init__(self, directory: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.error: InvalidRequest | None = None
        self.answer: dict[str, Any] = {"paused_since_s": 7, "changed": True}
        self._inbox = Inbox(directory)
        self._inbox.open()

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return self.answer

    def serve(self, stopping: threading.Event) -> None:
        while not stopping.wait(0.01):
            self._inbox.serve(self.do)


@contextmanager
def serving(policy: Policy) -> Iterator[None]:
    stopping = threading.Event()
    thread = threading.Thread(target=policy.serve, args=(stopping,))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[Policy]:
    made = Policy(requests_directory(tmp_path, "replication", "shop"))
    with serving(made):
        yield made


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    for name, token in (("viewer", VIEWER), ("operator", OPERATOR)):
        (tmp_path / name).write_text(token)
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "sources": {"lake": {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}},
            "targets": {"dr": {"metastore": ["thrift://b:9083"]}},
            "kafka": {"bootstrap": "kafka:9092"},
            "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}},
        }
    )
    audit = Audit(clock=lambda: 1.0)
    tokens = Tokens(
        [
            TokenFile(Client("grafana", Role.VIEW), tmp_path / "viewer"),
            TokenFile(Client("admin", Role.OPERATE), tmp_path / "operator"),
        ]
    )
    app = Gate(
        app_of(audit_route(audit), *policy_routes(config, audit), *policy_list_routes(config, daemon_status)),
        Access(tokens=tokens),
        lambda _: None,
    )
    with served(app) as server:
        yield server.port


def recorded(port: int) -> list[tuple[str, str, str, str | None]]:
    body = asked(port, "/api/v1/actions").text
    check_form(TypeAdapter(ActionList), body)
    return [
        (each["client"], each["action"], each["object"], each["code"]) for each in json.loads(body)["actions"]
    ]


def test_an_action_is_served_by_the_loop_of_the_policy_and_recorded(port: int, policy: Policy) -> None:
    assert acted(port, PAUSE) == (200, policy.answer)
    assert acted(port, "/api/v1/policies/shop/release", {"table": "a"})[0] == 200
    assert policy.requests == [{"do": "pause", "reason": ""}, {"do": "release", "table": "a", "load": False}]
    assert recorded(port) == [("admin", "release", "shop", None), ("admin", "pause", "shop", None)]


def test_the_record_of_an_action_has_its_table_and_why_it_was_refused(port: int, policy: Policy) -> None:
    acted(port, "/api/v1/policies/shop/release", {"table": "a"})
    assert acted(port, "/api/v1/policies/none/pause")[0] == 404
    refused, done = json.loads(asked(port, "/api/v1/actions").text)["actions"]
    assert (done["parameters"], done["problem"]) == ({"table": "a"}, None)
    assert (refused["parameters"], refused["problem"]) == ({}, "this daemon does not follow the policy")


def test_tables_are_pruned_only_if_they_are_named(port: int, policy: Policy) -> None:
    assert acted(port, "/api/v1/policies/shop/prune", {})[0] == 400
    acted(port, "/api/v1/policies/shop/plan-prune")
    acted(port, "/api/v1/policies/shop/prune", {"tables": ["a"]})
    assert policy.requests == [{"do": "plan-prune", "tables": []}, {"do": "prune", "tables": ["a"]}]


def test_a_policy_is_retired(port: int, policy: Policy) -> None:
    assert acted(port, "/api/v1/policies/shop/retire")[0] == 200
    assert policy.requests == [{"do": "retire"}]
    assert recorded(port)[0] == ("admin", "retire", "shop", None)


def test_a_bootstrap_is_begun_and_recorded(port: int, policy: Policy) -> None:
    assert acted(port, "/api/v1/policies/shop/bootstrap")[0] == 202
    assert acted(port, "/api/v1/policies/shop/bootstrap", {"reuse_files": True})[0] == 202
    assert policy.requests == [
        {"do": "bootstrap", "reuse_files": False},
        {"do": "bootstrap", "reuse_files": True},
    ]
    assert recorded(port)[0] == ("admin", "bootstrap", "shop", None)
    assert acted(port, "/api/v1/policies/none/bootstrap")[0] == 404
    assert acted(port, "/api/v1/policies/shop/bootstrap", token=VIEWER)[0] == 403


def test_a_policy_is_promoted_and_forced_only_if_the_request_says_so(port: int, policy: Policy) -> None:
    acted(port, "/api/v1/policies/shop/plan-promotion")
    acted(port, "/api/v1/policies/shop/promote")
    acted(port, "/api/v1/policies/shop/promote", {"force": True})
    assert policy.requests == [
        {"do": "plan-promotion"},
        {"do": "promote", "force": False},
        {"do": "promote", "force": True},
    ]
    assert recorded(port)[0] == ("admin", "promote", "shop", None)


def test_compactions_are_queued_at_the_target(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[object, ...]] = []

    def request(target: object, policy: Any, *what: object) -> list[RequestedCompaction]:
        asked_for.append((target, policy.target_db, *what))
        return [RequestedCompaction("a", "p=1", "minor", accepted=True, state="initiated", message=None)]

    monkeypatch.setattr(routes, "Metastore", lambda uris: nullcontext(uris[0]))
    monkeypatch.setattr(routes, "closing", lambda opened: opened)
    monkeypatch.setattr(routes, "request_compactions", request)
    body = {"table": "Shop.A", "partitions": ["p=1"], "kind": "minor"}
    status, answer = acted(port, "/api/v1/policies/shop/compact", body)
    assert (status, answer["requested"][0]["state"]) == (200, "initiated")
    assert asked_for == [("thrift://b:9083", "shop", "a", ["p=1"], "minor")]
    assert acted(port, "/api/v1/policies/shop/compact", {"table": "a", "kind": "all"})[0] == 400
    assert acted(port, "/api/v1/policies/none/compact", {"table": "a"})[0] == 404


@pytest.mark.parametrize(
    ("token", "status", "code"), [(VIEWER, 403, "forbidden"), (None, 401, "unauthenticated")]
)
def test_only_operators_may_act(port: int, policy: Policy, token: str | None, status: int, code: str) -> None:
    answered, problem = acted(port, PAUSE, token=token)
    assert (answered, problem["code"]) == (status, code)
    assert policy.requests == []
    assert recorded(port)[0][1:] == ("pause", "shop", code)


def test_an_action_is_never_done_by_reading(port: int, policy: Policy) -> None:
    assert asked(port, PAUSE, token=OPERATOR).status == 405
    assert policy.requests == []


def test_the_error_of_the_loop_is_the_answer(port: int, policy: Policy) -> None:
    policy.error = InvalidRequest("the policy is promoted", policy="shop")
    status, problem = acted(port, PAUSE)
    assert (status, problem["code"], problem["context"]) == (400, "invalid-request", {"policy": "shop"})
    assert recorded(port) == [("admin", "pause", "shop", "invalid-request")]


@pytest.mark.parametrize("name", ["none", "%2e%2e", "x" * 300])
def test_an_unknown_policy_is_not_found(port: int, name: str) -> None:
    assert acted(port, f"/api/v1/policies/{name}/pause")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"[",
        b"[]",
        b"\xff",
        {"tables": "a"},
        {"tables": ["a"], "more": 1},
        {},
        {"tables": [1]},
        b"x" * (BODY_BYTES_MAX + 1),
    ],
    ids=["torn", "list", "bytes", "text", "unknown", "missing", "number", "long"],
)
def test_a_body_of_another_form_is_refused(port: int, policy: Policy, body: object) -> None:
    status, problem = acted(port, "/api/v1/policies/shop/load", body)
    assert (status, problem["code"] in {"bad-input", "limit-exceeded"}) == (400, True)
    assert policy.requests == []


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["pause", "--reason", "new disks"], {"do": "pause", "reason": "new disks"}),
        (["resume"], {"do": "resume"}),
        (["gap", "policy"], {"do": "cross-gap"}),
        (["promote", "--dry-run"], {"do": "plan-promotion"}),
        (["retire"], {"do": "retire"}),
        (["bootstrap"], {"do": "bootstrap", "reuse_files": False}),
        (["bootstrap", "--reuse-files", "--yes"], {"do": "bootstrap", "reuse_files": True}),
        (["prune", "--dry-run"], {"do": "plan-prune", "tables": []}),
    ],
)
def test_commands_act_on_a_daemon_elsewhere_with_the_token_of_a_file(
    words: list[str], sent: dict[str, Any], port: int, policy: Policy, tmp_path: Path
) -> None:
    policy.error = InvalidRequest("refused by the policy")
    (tmp_path / "token").write_text(OPERATOR)
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "token")]
    assert call([*words, "shop", *where]) == 1
    assert policy.requests == [sent]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"changed": True, "waits_for": None}, "policy shop is resumed"),
        (
            {"changed": False, "waits_for": "The policy waits for its bootstrap."},
            "policy shop was not paused. The policy waits for its bootstrap.",
        ),
    ],
)
def test_a_resume_does_not_claim_an_effect_that_it_did_not_have(
    answer: dict[str, Any],
    text: str,
    port: int,
    policy: Policy,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    policy.answer = {"paused_since_s": None, **answer}
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "operator")]
    assert call(["resume", "shop", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == text


def test_a_command_prints_the_answer_or_the_refusal_of_a_daemon_elsewhere(
    port: int, policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", f"http://{HOST}:{port}", "--token-file"]
    assert call(["pause", "shop", *where, str(tmp_path / "operator"), "-o", "yaml"]) == 0
    assert "paused_since_s: 7" in capsys.readouterr().out.splitlines()  # after the daemon's log
    assert call(["pause", "shop", *where, str(tmp_path / "viewer"), "-o", "json"]) == 1
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["code"], error["context"]["needed"]) == ("forbidden", "operate")
    assert policy.requests == [{"do": "pause", "reason": ""}]


def test_a_client_that_leaves_before_the_end_of_its_body_is_recorded_and_not_a_defect(port: int) -> None:
    head = "POST /api/v1/policies/shop/release HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n"
    with connect(port) as client:
        client.sendall(f"{head}authorization: Bearer {OPERATOR}\r\n\r\n{{".encode())
    eventually(lambda: [each[3] for each in recorded(port)] == ["bad-input"])


def test_policies_are_listed_and_shown_by_a_daemon_elsewhere(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", f"http://{HOST}:{port}", "--token-file"]
    assert call(["policy", "list", *where, str(tmp_path / "viewer"), "-o", "name"]) == 0
    assert call(["policy", "show", "shop", *where, str(tmp_path / "operator"), "-o", "wide"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("shop\nname: shop\nsource: lake\n")
    assert "bytes_per_s_max: null" in printed
    check_form(TypeAdapter(PolicyList), asked(port, "/api/v1/policies").text)
    assert call(["policy", "show", "shop", *where, str(tmp_path / "viewer")]) == 1
    assert call(["policy", "show", "none", *where, str(tmp_path / "operator")]) == 1


def test_external_directories_are_listed_by_a_daemon_elsewhere(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "viewer")]
    assert call(["external", "shop", *where]) == 1
    assert "there is no list of external tables yet" in capsys.readouterr().err
    directory = tmp_path / "external" / "shop"
    directory.mkdir(parents=True)
    (directory / DIRECTORY_LIST).write_text("logs,aGRmczovL2EvbG9ncw==\n")
    assert call(["external", "shop", *where]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["shop.logs", "hdfs://a/logs", "-"]


def test_compactions_are_queued_and_listed_by_a_daemon_elsewhere(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def request(*_: Any) -> list[RequestedCompaction]:
        return [RequestedCompaction("shop.a", None, "minor", accepted=True, state="initiated", message=None)]

    def listed(*_: Any) -> list[CompactionState]:
        return [CompactionState("shop.a", None, "minor", "working", 1.0, 2.0, None, None)]

    monkeypatch.setattr(routes, "Metastore", lambda uris: nullcontext(uris[0]))
    monkeypatch.setattr(routes, "closing", lambda opened: opened)
    monkeypatch.setattr(routes, "request_compactions", request)
    monkeypatch.setattr(routes, "list_compactions", listed)
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "operator")]
    assert call(["compact", "shop", "shop.a", "--minor", *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "shop.a: minor compaction initiated" in lines
    assert lines[-1].split()[:4] == ["shop.a", "-", "minor", "working"]
    assert "1970-01-01 00:00:02 UTC" in lines[-1]


def test_a_number_is_not_taken_for_a_decision(port: int, policy: Policy) -> None:
    assert acted(port, "/api/v1/policies/shop/promote", {"force": 0})[0] == 400
    assert policy.requests == []
