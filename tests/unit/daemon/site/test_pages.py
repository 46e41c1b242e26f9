"""Pages without a browser: foreign texts, files, runbooks and buttons."""

from __future__ import annotations

import hashlib
import re

import pytest

from daemon.site.consequences import describe_consequence
from daemon.site.drawing import draw
from daemon.site.overview import make_cards, overview_values
from daemon.site.rendering import percent_text, static_files, static_path
from daemon.site.runbooks import runbook_path
from daemon.status.action_calls import call_source
from daemon.status.actions import list_actions
from daemon.status.history import INTERVAL_S, HistoryPoint
from daemon.status.model import FailedLoop, ProjectionView, SourceStatus
from handlers.failures import TableFailure
from state.errors import GapDetected
from tests.builders.daemon import operator_states, site_states
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.http_client import asked, served
from tests.builders.daemon.loops import daemon_status


def test_foreign_texts_are_escaped_with_their_control_characters() -> None:
    status = daemon_status(host="<script>alert(1)</script>\u202e")
    with served(app_of(status=lambda: status)) as server:
        answer = asked(server.port, "/")
    assert "<script>" not in answer.text
    assert "\u202e" not in answer.text
    assert "unsafe-inline" not in answer.headers["content-security-policy"]


def test_the_scripts_of_other_projects_are_those_that_were_published() -> None:
    listed = re.findall(r"`([\w.-]+\.js)` \|.*\| (\w{64}) \|", (static_files() / "README.md").read_text())
    assert len(listed) == 2
    for name, digest in listed:
        assert hashlib.sha256((static_files() / name).read_bytes()).hexdigest() == digest


def test_files_are_cached_and_unknown_ones_are_not_found() -> None:
    with served(app_of()) as server:
        style = asked(server.port, static_path("site.css"))
        missing = asked(server.port, "/static/..%2fpages.py")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in style.headers["cache-control"]
    assert missing.status == 404


def test_every_card_leads_to_a_section_of_a_page() -> None:
    paths = {runbook_path(each.look) for each in site_states.troubled_status().needs_operator}
    assert len(paths) >= 8
    with served(app_of()) as server:
        for path in paths:
            page, _, anchor = path.partition("#")
            answer = asked(server.port, page)
            assert answer.status == 200, path
            assert f'id="{anchor}"' in answer.text, path


def test_each_button_says_what_it_will_do_to_which_object() -> None:
    needs = site_states.troubled_status().needs_operator
    texts = {
        each.action.label: describe_consequence(each.action) for each in needs if each.action is not None
    }
    assert texts["Resume"] == "Policy hr continues from its position. It skips no event."
    assert texts["Release"].startswith("The daemon follows shop.visits of policy shop again.")
    assert texts["Load again"].startswith("The daemon loads geo.regions of policy geo again")
    assert texts["Skip the lost events"].startswith("Policy web continues after the lost events.")
    relay = describe_consequence(call_source("lake", "cross-gap", "Skip the lost events"))
    assert relay.startswith("The relay of source lake continues after the lost events.")


def test_many_policies_are_one_box_in_the_state_of_the_worst() -> None:
    (stream,) = draw(site_states.large_status(), ()).streams
    (box,) = stream.groups[0].readers
    assert (box.name, box.state) == ("300 policies", "paused")
    assert box.facts == ("298 following", "1 paused", "1 behind")


def test_what_is_not_known_yet_is_not_shown_as_zero_or_complete() -> None:
    status = daemon_status(
        sources=(SourceStatus("lake", relay_state="starting"),),
        projections=(ProjectionView("replication:shop", "lake", "backing-off", None, None, None, None),),
    )
    values = overview_values(status, (), [HistoryPoint(int(status.time_s) // INTERVAL_S)])
    assert values["lag_s"] is None
    assert {(line.latest, line.highest) for line in values["sparklines"]} == {("-", "-")}
    assert values["drawing"].streams[0].topic.facts == ()


def test_a_login_asks_for_a_token() -> None:
    with served(app_of()) as server:
        answer = asked(server.port, "/login")
    assert answer.status == 401
    assert "Basic" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0 %"), (0.0031, "0.31 %"), (0.42, "42 %"), (1.7, "170 %")]
)
def test_small_shares_are_shown_with_two_digits(share: float, text: str) -> None:
    assert percent_text(share) == text


def test_a_card_names_what_has_happened_and_its_object_in_words() -> None:
    lost = GapDetected("events are missing", expected=1, found=3)
    gap = FailedLoop("replication:shop", lost.code, str(lost), 7.0)
    relay = FailedLoop("relay:lake", "unexpected", "KeyError: 1", 7.0)
    orders = TableFailure("shop.orders", 5, 7, "file-lost", "[file-lost] the file is gone (path=/a). Wait.")
    shop = operator_states.view("replication:shop", failures=(orders,))
    status = operator_states.status(shop, failed_loops=(gap, relay))
    cards = make_cards(list_actions(status), status.projections)
    assert [(card.title, card.name, card.path, card.text.message) for card in cards] == [
        ("Lost events", "Policy shop", "/policies/shop", "Events are missing."),
        ("Failed loop", "Relay of source lake", "", "KeyError: 1."),
        (
            "Quarantined table",
            "Table shop.orders of policy shop",
            "/policies/shop/tables/orders",
            "The file is gone.",
        ),
    ]
    assert [card.readers for card in cards] == [(), (("Policy shop", "/policies/shop"),), ()]
    assert (cards[2].text.code, cards[2].text.fix) == ("file-lost", "Wait.")
