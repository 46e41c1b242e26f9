"""The list of everything that needs an operator: no state can be missing, and each has its command and its
runbook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.endpoint.configured.status import ENDPOINTS
from daemon.http.operations import ApiRoute
from daemon.process.loops.loop import LoopState
from daemon.replica.external.status import EXTERNAL
from daemon.replica.status.compactions import COMPACTIONS
from daemon.replica.status.left import LEFT
from daemon.replica.status.loads import LOADS
from daemon.replica.verification.status import VERIFICATION
from daemon.retention.status import RETENTION
from daemon.service.capabilities import all_sections
from daemon.status.actions import KINDS, REMOVE_CAUSE, SCAN, SHORT_RETENTION, list_actions
from daemon.status.model import (
    DaemonStatus,
    FailedLoop,
    OperatorAction,
    StatusSection,
)
from daemon.status.report.text import status_text
from handlers.failures import TableFailure
from state.errors import Inconsistent, TidelineError
from tests.builders.daemon import runbook_samples
from tests.builders.daemon.assembly import config_of, parts_of
from tests.builders.daemon.operator_states import EVERYTHING, SINCE_S, status, view
from tests.builders.page_anchors import page_anchors


DOCS = Path(__file__).parents[4] / "docs"


def failed(name: str, code: str) -> FailedLoop:
    return FailedLoop(name, code, f"[{code}] it does not work", 7.0)


def listed(found: DaemonStatus) -> tuple[OperatorAction, ...]:
    return list_actions(found, all_sections())


def test_a_daemon_without_problems_needs_no_operator() -> None:
    assert listed(status(view("replication:shop"))) == ()


def test_every_state_that_needs_an_operator_is_listed_with_its_command() -> None:
    commands = {(action.kind, action.object): action.command for action in listed(EVERYTHING)}
    assert commands == {
        ("quarantined-table", "replication:shop shop.orders"): "tideline release shop shop.orders",
        ("paused-policy", "replication:blog"): "tideline resume blog",
        ("new-policy", "replication:fresh"): "tideline bootstrap fresh",
        ("circuit-breaker", "replication:ads"): REMOVE_CAUSE,
        ("failing-load", "catalog:lake shop.clicks"): "tideline timeline rebuild shop.clicks",
        ("dead-letters", "catalog:pond"): "tideline dlq list",
        ("stuck-loop", "relay:sea"): "restart the daemon",
        ("failed-loop", "replication:sales"): "tideline gap policy sales",
        ("failed-loop", "replication:forum"): "tideline resume forum",
        ("failed-loop", "replication:wiki"): "tideline resume wiki",
        ("failed-loop", "relay:lake"): "tideline gap source lake",
        ("failed-loop", "catalog:lake"): REMOVE_CAUSE,
        ("failed-loop", "relay:pond"): REMOVE_CAUSE,
        ("failed-loop", "flat:clicks"): REMOVE_CAUSE,
        ("failed-loop", "mining"): REMOVE_CAUSE,
        ("failed-loop", "verification:shop"): REMOVE_CAUSE,
        ("failed-loop", "watch:sea"): REMOVE_CAUSE,
        ("failing-load", "replication:press press.3"): "tideline release press 3",
        ("differing-table", "replication:shop shop.visits"): "tideline verify shop visits --repair",
        ("left-table", "replication:shop"): "tideline prune shop",
        ("retention", "relay:lake"): SHORT_RETENTION,
        ("failing-copy", "replication:shop"): "tideline external shop",
        ("failed-compaction", "replication:shop"): "tideline compact shop 'daily sums'",
        ("waiting-compaction", "replication:press"): "start a compaction worker on the target",
        ("differing-answers", "serve:lake shop.visits"): "tideline partitions load shop.visits --source lake",
        ("failed-loop", "serve:lake"): REMOVE_CAUSE,
        ("unnamed-writes", "lake shop.clicks"): SCAN,
    }
    assert {kind for kind, _ in commands} == set(KINDS)


def test_text_json_and_list_have_the_same_states() -> None:
    found = replace(EVERYTHING, needs_operator=listed(EVERYTHING))
    read = DaemonStatus.from_json(found.to_json(), all_sections())
    assert read.needs_operator == found.needs_operator
    assert read.failed_loops == found.failed_loops
    text = status_text(found, all_sections())
    for action in found.needs_operator:
        assert action.command in text
        assert action.reason in " ".join(text.split())


def test_a_failing_load_says_how_often_why_and_when_it_is_tried_next() -> None:
    (action,) = (each for each in listed(EVERYTHING) if each.object == "replication:press press.3")
    assert action.reason.startswith("failed 3 times, next try 1970-01-01 03:05:00 UTC: [files-unavailable] ")
    assert action.since_s == SINCE_S


@pytest.mark.parametrize("action", listed(EVERYTHING), ids=lambda action: f"{action.kind} {action.object}")
def test_every_entry_points_to_an_existing_runbook_and_has_a_reason(action: OperatorAction) -> None:
    page, _, anchor = action.look.removeprefix("docs/").partition("#")
    assert anchor in page_anchors((DOCS / page).read_text())
    assert action.reason


@pytest.mark.parametrize("kind", KINDS)
def test_the_documentation_lists_every_kind(kind: str) -> None:
    assert f"| `{kind}` |" in (DOCS / "guides/monitoring.md").read_text()


def errors_that_stop_a_loop(root: type[TidelineError] = Inconsistent) -> Iterator[str]:
    yield root.code
    for kind in root.__subclasses__():
        yield from errors_that_stop_a_loop(kind)


@pytest.mark.parametrize("code", sorted(errors_that_stop_a_loop()))
@pytest.mark.parametrize("loop", ["replication:a", "relay:a", "catalog:a", "flat:a", "mining", "new:a"])
def test_a_loop_that_failed_for_any_reason_is_listed_also_one_of_a_new_kind(loop: str, code: str) -> None:
    (action,) = listed(status(failed_loops=(failed(loop, code),)))
    assert (action.kind, action.object, action.since_s) == ("failed-loop", loop, 7.0)
    assert action.command


def test_every_state_of_a_loop_is_classified() -> None:
    """A new state must be added here, and to the list if an operator is needed."""
    passes = {LoopState.STARTING, LoopState.FOLLOWING, LoopState.BACKING_OFF, LoopState.STOPPED}
    needs_operator = {LoopState.FAILED}
    assert passes | needs_operator == set(LoopState)


def test_every_section_with_problems_of_its_own_is_part_of_the_list() -> None:
    """A new section must be added here, with what of it needs an operator (empty: only its loop can fail)."""
    known = {
        "copies": (),
        "loads": ("failing-load",),
        "left": ("left-table",),
        "retention": ("retention",),
        "unreplicated": (),
        "external": ("failing-copy",),
        "points": (),
        "endpoints": ("differing-answers",),
        "verification": ("differing-table",),
        "compactions": ("failed-compaction", "waiting-compaction"),
        "flats": (),
        "mining": (),
        "daemons": (),
    }
    assert {section.key for section in all_sections()} == set(known)
    sections: list[StatusSection[Any]] = [
        LOADS,
        VERIFICATION,
        LEFT,
        EXTERNAL,
        ENDPOINTS,
        RETENTION,
        COMPACTIONS,
    ]
    for section in sections:
        kinds = {action.kind for action in section.actions(section.of(EVERYTHING))}
        assert kinds == set(known[section.key])


def test_something_that_passes_by_itself_needs_no_operator() -> None:
    assert listed(status(view("replication:a", "backing-off", code="metastore-unavailable"))) == ()


def test_a_relay_whose_source_was_restored_has_a_runbook_of_its_own() -> None:
    (action,) = list_actions(status(failed_loops=(failed("relay:lake", "inconsistent"),)))
    assert action.look.endswith("#the-source-was-restored-from-a-backup")


def test_a_command_quotes_the_name_of_a_table_for_the_shell() -> None:
    failure = TableFailure("shop.two words", 7, 5, "file-lost", "gone")
    odd = view("replication:a", failures=(failure,), repair="tideline release a {table}")
    assert [each.command for each in listed(status(odd))] == ["tideline release a 'shop.two words'"]


@pytest.mark.parametrize(
    ("loop", "runbook"),
    [
        ("serve:lake", "docs/runbooks/endpoint.md#the-metastore-endpoint-is-down-or-restarts"),
        ("databases:sales", "docs/guides/policies.md#all-databases-that-match-a-pattern"),
        ("relay:lake", "docs/runbooks/relay.md#the-relay-is-behind"),
    ],
)
def test_a_failed_loop_has_the_runbook_of_its_own_kind(loop: str, runbook: str) -> None:
    (action,) = listed(status(failed_loops=(failed(loop, "config"),)))
    assert action.look == runbook


def test_states_that_a_request_ends_have_it_and_the_api_serves_it() -> None:
    failure = TableFailure("shop.a", 7, 1, "file-lost", "the file is gone")
    actions = list_actions(
        status(
            view("replication:shop", "paused", failures=(failure,)),
            view("catalog:lake", failures=(failure,)),
            failed_loops=(failed("relay:pond", "gap"), failed("replication:shop", "gap")),
        )
    )
    calls = [each.action for each in actions if each.action is not None]
    assert [(call.path, dict(call.body)) for call in calls] == [
        ("/api/v1/sources/pond/cross-gap", {}),
        ("/api/v1/policies/shop/cross-gap", {}),
        ("/api/v1/policies/shop/resume", {}),
        ("/api/v1/policies/shop/release", {"table": "shop.a"}),
    ]
    served = api_patterns()
    assert {call.path.replace("/shop/", "/{name}/").replace("/pond/", "/{name}/") for call in calls} <= served


def test_the_gap_of_a_policy_is_crossed_after_that_of_its_relay() -> None:
    gap = failed("replication:shop", "gap")
    shop, other = view("replication:shop"), replace(view("replication:other"), source="pond")
    (_, later) = list_actions(status(shop, other, failed_loops=(failed("relay:lake", "gap"), gap)))
    assert later.command == "tideline gap source lake"
    assert later.action is None
    for relay in (failed("relay:lake", "unexpected"), failed("relay:pond", "gap")):
        (_, now) = list_actions(status(shop, other, failed_loops=(relay, gap)))
        assert now.command == "tideline gap policy shop"
        assert now.action is not None


def api_patterns() -> set[str]:
    source = {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}
    parts = parts_of(config_of({"sources": {"lake": source}, "kafka": {"bootstrap": "kafka:9092"}}))
    return {route.operation.path for route in parts.routes if isinstance(route, ApiRoute)}


@pytest.mark.parametrize("page", sorted(runbook_samples.RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_the_samples_of_the_runbooks_are_what_the_program_prints(page: Path) -> None:
    """Run 'python -m tests.builders.daemon.runbook_samples' after a change."""
    text = page.read_text()
    assert runbook_samples.with_samples(page.name, text) == text


def test_every_state_and_every_alert_with_a_runbook_has_a_sample_there() -> None:
    shown = {page.name: page.read_text() for page in runbook_samples.RUNBOOKS.glob("*.md")}
    for address, sample in runbook_samples.samples().items():
        page, _, anchor = address.partition("#")
        if page in shown:
            assert anchor in page_anchors(shown[page])
            assert sample.partition("\n")[2] in shown[page]


def test_an_alert_shows_no_template() -> None:
    assert not [text for text in runbook_samples.samples().values() if "{{" in text]
