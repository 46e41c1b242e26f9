"""Cards of loops that wait for another system: one for each cause, with its age, its reason and its fix."""

from __future__ import annotations

from dataclasses import replace

from daemon.site.blocked import ROUTINE_S, SHOWN_MAX, make_blocked_cards
from daemon.status.actions import list_actions
from daemon.status.model import FailedLoop
from state.errors import FilesUnavailable, KafkaUnavailable, LoginFailed, MetastoreUnavailable, TidelineError
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.http_client import asked, served
from tests.builders.daemon.operator_states import NOW_S, status, view


DOWN = MetastoreUnavailable("no address can be reached", addresses="thrift://a:9083: refused")
FULL = FilesUnavailable("the disk is full", path="/state", hint="Free space on the state volume.")


def blocked(name: str, error: TidelineError = DOWN, for_s: float = 60.0) -> FailedLoop:
    return FailedLoop(name, error.code, str(error), NOW_S - for_s, error.hint)


def test_a_card_says_what_is_wrong_since_when_why_and_what_to_do() -> None:
    (card,) = make_blocked_cards(status(blocked_loops=(blocked("replication:shop"),)))
    assert (card.title, card.since_s, card.more) == ("A metastore does not answer", NOW_S - 60, 0)
    (reason,) = card.reasons
    assert (reason.loops, reason.more) == ((("Policy shop", "/policies/shop"),), 0)
    assert reason.message == "No address can be reached."
    assert reason.details == "addresses=thrift://a:9083: refused"
    assert card.fix == DOWN.hint


def test_loops_with_the_same_cause_share_a_card_and_the_oldest_cause_is_first() -> None:
    down = [blocked(f"replication:p{number}", for_s=100 - number) for number in range(SHOWN_MAX + 2)]
    full = blocked("catalog:lake", FULL, for_s=500)
    first, second = make_blocked_cards(status(blocked_loops=(*down, full)))
    assert (first.fix, second.since_s) == (FULL.hint, NOW_S - 100)
    (reason,) = second.reasons
    assert (len(reason.loops), reason.more) == (SHOWN_MAX, 2)


def test_loops_with_other_reasons_are_shown_with_theirs() -> None:
    places = (MetastoreUnavailable("no address can be reached", addresses=name) for name in "abcde")
    loops = tuple(blocked(f"relay:{number}", error) for number, error in enumerate(places))
    (card,) = make_blocked_cards(status(blocked_loops=loops))
    assert [each.details for each in card.reasons] == ["addresses=a", "addresses=b", "addresses=c"]
    assert card.more == 2


def test_a_policy_shows_only_the_cause_that_stops_it() -> None:
    found = status(blocked_loops=(blocked("replication:a"), blocked("replication:b", FULL)))
    (card,) = make_blocked_cards(found, only={"replication:b"})
    assert card.fix == FULL.hint


def test_a_card_names_the_policies_that_wait_for_a_relay() -> None:
    policies = [replace(view(f"replication:{name}"), source=name[0]) for name in ("a1", "a2", "b1")]
    found = status(*policies, blocked_loops=(blocked("retention:a"), blocked("relay:a")))
    (card,) = make_blocked_cards(found)
    (reason,) = card.reasons
    assert [name for name, _ in reason.loops] == ["Relay of source a", "Policy a1", "Policy a2"]
    assert reason.more == 1


def test_routine_failures_and_states_with_an_action_have_no_card() -> None:
    routine = blocked("relay:lake", KafkaUnavailable("a new leader"), for_s=ROUTINE_S - 1)
    tripped = view("replication:ads", "backing-off", code="too-many-failures")
    found = status(tripped, blocked_loops=(routine, blocked("replication:ads")))
    actions = list_actions(found)
    assert [each.kind for each in actions] == ["circuit-breaker"]
    assert make_blocked_cards(status(blocked_loops=found.blocked_loops, needs_operator=actions)) == []


def test_every_card_leads_to_a_section_of_a_runbook() -> None:
    errors = (DOWN, FULL, KafkaUnavailable("x"), LoginFailed("x"), TidelineError("x"))
    found = status(blocked_loops=tuple(blocked(f"relay:{n}", each) for n, each in enumerate(errors)))
    cards = make_blocked_cards(found)
    assert len(cards) == len(errors)
    with served(app_of()) as server:
        for card in cards:
            path, _, anchor = card.runbook.partition("#")
            assert f'id="{anchor}"' in asked(server.port, path).text


def test_the_overview_does_not_say_that_all_is_well() -> None:
    found = status(view("replication:shop", "backing-off"), blocked_loops=(blocked("replication:shop"),))
    with served(app_of(status=lambda: found)) as server:
        text = asked(server.port, "/").text
    assert "A metastore does not answer" in text
    assert "nothing is blocked" not in text
