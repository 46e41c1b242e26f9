"""The page of a failover: the plan with its button, and afterwards the remaining steps and the way back."""

from __future__ import annotations

import html
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from daemon.config.model import Config
from daemon.consumer.shared.window import SharedEvent
from daemon.process.inbox import Inbox, Request, requests_directory
from daemon.replica.http.promotion_page import describe_way_back, promotion_page
from daemon.status.model import ProjectionView
from handlers.replication.operations.promotion import IncompleteTable, Promotion
from handlers.routing import Route
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.http_client import OPERATOR, asked, operated, served
from tests.builders.daemon.operator_states import status, view
from tests.builders.replication.replay_events import created


PLAN = Promotion("shop", "shop_r", 412, 1_700_000_000, open_writes={"orders": (7,)}, aborted=1)
FOLLOWING = view("replication:shop", lag_events=0, lag_s=0.0)
PROMOTED = view("replication:shop", "promoted")


def config(directory: Path) -> Config:
    return config_of(
        {
            "state": {"dir": str(directory)},
            "sources": {"lake": {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}},
            "targets": {"dr": {"metastore": ["thrift://b:9083"]}},
            "kafka": {"bootstrap": "kafka:9092"},
            "policies": {
                "shop": {"source": "lake", "target": "dr", "database": "shop", "target_database": "shop_r"}
            },
        }
    )


@contextmanager
def answering(directory: Path, plan: Promotion) -> Iterator[list[Request]]:
    """Serve the inbox of the policy with ``plan``."""
    requests: list[Request] = []
    inbox, stopping = Inbox(requests_directory(directory, "replication", "shop")), threading.Event()
    inbox.open()

    def do(request: Request) -> Request:
        requests.append(request)
        return asdict(plan)

    def serve() -> None:
        while not stopping.wait(0.01):
            inbox.serve(do)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        stopping.set()
        thread.join()


def page(
    directory: Path,
    plan: Promotion,
    policy: ProjectionView = FOLLOWING,
    recent: Sequence[SharedEvent] = (),
) -> str:
    route = promotion_page(config(directory), lambda: status(policy), lambda _: recent)
    with answering(directory, plan) as requests, operated(directory, route) as server:
        text = asked(server.port, "/policies/shop/promotion", token=OPERATOR).text
    assert requests == [{"do": "plan-promotion"}]
    return html.unescape(text)


def test_the_plan_has_the_point_and_the_button(tmp_path: Path) -> None:
    text = page(tmp_path, PLAN)
    assert "event 412 of the whole source, 2023-11-14 22:13:20 UTC" in text
    assert "open write ids 7" in text
    assert 'data-action="/api/v1/policies/shop/promote" data-body="{}"' in text
    assert "back.yaml" not in text


@pytest.mark.parametrize(("age_s", "may_write"), [(5, True), (3600, False)])
def test_the_plan_shows_the_last_change_of_the_source(tmp_path: Path, age_s: int, may_write: bool) -> None:
    time_s = int(status(FOLLOWING).time_s) - age_s
    events = [replace(created(7, "t"), db=db, time_s=time_s) for db in ("shop", "other")]
    text = page(tmp_path, PLAN, recent=[SharedEvent(event, 1, Route(None)) for event in events])
    assert "CREATE_TABLE of shop.t, event 7" in text
    assert ("Written within the last minute" in text) == may_write
    assert ("No change in the last minute" in text) == (not may_write)
    text = page(tmp_path, PLAN, recent=[SharedEvent(replace(created(7), db="other"), 1, Route(None))])
    assert "The last 1 event did not change it." in text
    assert "did not change it" not in page(tmp_path, PLAN)


def test_a_paused_policy_is_to_be_resumed_before_it_catches_up(tmp_path: Path) -> None:
    text = page(tmp_path, PLAN, replace(FOLLOWING, state="paused", lag_events=7, lag_s=90.0))
    assert "The policy is paused, and the replica lags by" in text
    assert "Wait until" not in text


def test_incomplete_tables_are_named_and_need_a_forced_promotion(tmp_path: Path) -> None:
    text = page(tmp_path, replace(PLAN, incomplete=(IncompleteTable("orders", "waits for its load"),)))
    assert "orders: waits for its load" in text
    assert 'data-body="{"force":true}"' in text
    assert ">Promote as it is<" in text


def test_a_promoted_policy_shows_the_steps_that_remain(tmp_path: Path) -> None:
    text = page(tmp_path, replace(PLAN, unmarked=True), PROMOTED)
    assert "data-action" not in text
    assert "tideline bootstrap shop-back --reuse-files -c back.yaml" in text


@pytest.mark.parametrize(("event_id", "where"), [(412, "contained"), (413, "not contained")])
def test_a_promoted_policy_says_whether_the_last_change_is_contained(
    tmp_path: Path, event_id: int, where: str
) -> None:
    text = page(tmp_path, PLAN, PROMOTED, [SharedEvent(created(event_id), 1, Route(None))])
    assert f"The last known change of lake/shop is event {event_id}, which is {where}." in text


def test_a_promotion_without_its_source_can_be_repeated(tmp_path: Path) -> None:
    text = page(tmp_path, PLAN, PROMOTED)
    assert "The source could not be reached" in text
    assert ">Promote again<" in text


def test_the_way_back_is_a_configuration_in_the_other_direction(tmp_path: Path) -> None:
    back = config_of(yaml.safe_load(describe_way_back(config(tmp_path), "shop").configuration))
    settings = back.policy("shop-back")
    assert (settings.source, settings.target) == ("dr", "lake")
    assert (settings.database, settings.replica_database) == ("shop_r", "shop")
    assert [str(each) for each in back.sources["dr"].metastore] == ["thrift://b:9083"]
    assert [str(each) for each in back.targets["lake"].metastore] == ["thrift://a:9083"]
    assert back.sources["dr"].topic != "t.lake"
    assert back.state.dir != tmp_path


def test_a_viewer_does_not_see_the_plan(tmp_path: Path) -> None:
    route = promotion_page(config(tmp_path), lambda: status(FOLLOWING), lambda _: ())
    with served(app_of(route)) as server:
        assert asked(server.port, "/policies/shop/promotion").status == 403
