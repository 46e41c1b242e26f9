"""Pages of policies: the list, its filter and its pages, and one policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from daemon.consumer.event_reader import Stages
from daemon.consumer.settings import SharingSettings
from daemon.consumer.shared.window import EventWindow
from daemon.replica.http.pages import PolicySite
from daemon.replica.known_tables import KnownTables, LastNames
from daemon.status.model import ENDED, DaemonStatus, FailedLoop
from handlers.replication.tables.policy_tables import PolicyTables
from state.errors import LoginFailed
from state.event_log.positions import Position
from tests.builders.daemon import site_states
from tests.builders.daemon.assembly import SECTIONS, app_of
from tests.builders.daemon.http_client import Answer, asked, served
from tests.builders.replication.replay_events import created


def page(status: Callable[[], DaemonStatus], path: str) -> Answer:
    with served(app_of(status=status)) as server:
        return asked(server.port, path)


def names(answer: Answer) -> list[str]:
    return re.findall(r'<td><a href="/policies/([^"]+)"', answer.text)


def test_policies_with_trouble_come_first_and_others_on_further_pages() -> None:
    first = names(page(site_states.large_status, "/policies"))
    assert (len(first), first[:2]) == (50, ["db_042", "db_017"])
    last = page(site_states.large_status, "/policies?page=6")
    assert (len(names(last)), "Page 6 of 6, 300 policies" in last.text) == (50, True)


def test_the_filter_finds_policies_by_name_target_and_state() -> None:
    assert names(page(site_states.large_status, "/policies?filter=dr/+PAUSED")) == ["db_017"]
    assert names(page(site_states.large_status, "/policies?filter=_29")) == [
        f"db_{n}" for n in range(290, 300)
    ]


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=99999999999", "page=%C2%B2", "order=name"])
def test_other_parameters_are_refused_with_a_page(query: str) -> None:
    answer = page(site_states.large_status, f"/policies?{query}")
    assert (answer.status, "<h1>" in answer.text) == (400, True)
    assert "[&#39;" not in answer.text, "values are not those of Python"


def test_the_list_shows_ids_without_separators_and_counts_with_them() -> None:
    text = page(site_states.behind_status, "/policies").text
    assert '<td class="n">1100000</td><td class="n">134,567</td>' in text


def test_a_policy_shows_its_point_loads_and_tables() -> None:
    answer = page(site_states.healthy_status, "/policies/shop")
    assert "30.0 GiB of 80.0 GiB" in answer.text
    assert ">90411<" in answer.text, "an id has no separators"
    assert names(answer) == [f"shop/tables/{table}" for table in ("clicks", "orders", "visits")]
    only = page(site_states.healthy_status, "/policies/shop?filter=loading")
    assert (">clicks</a>" in only.text, ">orders</a>" in only.text) == (True, False)


def test_a_policy_shows_where_the_time_of_its_last_event_went() -> None:
    answer = page(site_states.healthy_status, "/policies/shop")
    assert "The last event was visible after 4.0 s" in answer.text
    assert '<rect class="tone-4" x="200.0" width="800.0" height="1"/>' in answer.text
    assert '3.200 s <span class="small">until the batch is applied</span>' in answer.text


@pytest.mark.parametrize(("events", "shown"), [(None, "unknown"), (1, "1 event<"), (2_500, "2,500 events<")])
def test_the_lag_of_a_policy_is_a_number_of_events_or_unknown(events: int | None, shown: str) -> None:
    status = site_states.healthy_status()
    views = tuple(replace(view, lag_events=events) for view in status.projections)
    text = page(lambda: replace(status, projections=views), "/policies/shop").text
    (lag,) = re.findall(r"Lag</dt>\s*<dd[^>]*>(.*?)</dd>", text, re.DOTALL)
    assert shown in lag


@pytest.mark.parametrize("stages", [None, Stages(0.0, 0.0, 0.0, 0.0)])
def test_a_policy_has_a_page_before_its_first_event_and_after_one_without_delay(
    stages: Stages | None,
) -> None:
    status = site_states.healthy_status()
    views = tuple(replace(view, stages=stages) for view in status.projections)
    answer = page(lambda: replace(status, projections=views), "/policies/shop")
    assert (answer.status, "The last event was visible" in answer.text) == (200, stages is not None)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_the_page_of_a_policy_that_has_ended_says_so(state: str) -> None:
    status = site_states.healthy_status()
    views = tuple(replace(view, state=state) for view in status.projections)
    answer = page(lambda: replace(status, projections=views), "/policies/shop")
    assert f"This policy was {state}: " in answer.text
    assert "Lag</dt>" not in answer.text


def test_a_policy_shows_only_its_own_trouble() -> None:
    answer = page(site_states.troubled_status, "/policies/geo")
    assert "OutOfMemoryError" in answer.text
    assert "file-lost" not in answer.text


def test_a_policy_shows_the_trouble_of_its_source_too() -> None:
    healthy = site_states.healthy_status()
    refused = LoginFailed("the metastore refused the login", user="tideline")
    since_s = healthy.time_s - 60
    relay = FailedLoop("relay:lake", refused.code, str(refused), since_s, refused.hint)
    other = replace(relay, name="relay:pond", problem="[login-failed] another source")
    answer = page(lambda: replace(healthy, blocked_loops=(relay, other)), "/policies/shop")
    assert "Relay of source lake" in answer.text
    assert "another source" not in answer.text


def test_the_tables_of_a_paused_policy_are_not_shown_as_following() -> None:
    healthy = site_states.healthy_status()
    views = tuple(replace(view, state="paused") for view in healthy.projections)
    answer = page(lambda: replace(healthy, projections=views), "/policies/shop")
    assert ">paused</span></td>" in answer.text
    assert ">following</span></td>" not in answer.text


def test_an_unknown_policy_is_not_found() -> None:
    assert page(site_states.healthy_status, "/policies/none").status == 404


def test_a_load_says_how_long_it_takes_and_retention_is_a_bar() -> None:
    answer = page(site_states.healthy_status, "/policies/shop")
    assert "30.0 GiB of 80.0 GiB, 15 min left" in answer.text
    assert "Time left for events" in answer.text
    assert "6 d 12 h" in answer.text


def test_a_table_shows_its_quarantine_its_load_and_its_differences() -> None:
    quarantined = page(site_states.troubled_status, "/policies/shop/tables/orders")
    assert "part-0000 is gone from the change manager" in quarantined.text
    assert "shop.visits" not in quarantined.text
    differing = page(site_states.troubled_status, "/policies/geo/tables/regions")
    assert "column area: 7 at the source" in differing.text
    assert "and 1 more" in differing.text
    assert "15 min left" in page(site_states.healthy_status, "/policies/shop/tables/clicks").text
    assert page(site_states.healthy_status, "/policies/shop/tables/none").status == 404


class _NoObjects:
    def forget(self, name: str) -> None:
        """Keep nothing."""

    def clear(self) -> None:
        """Keep nothing."""


@dataclass
class Many:
    """A policy with very many tables, of whose events the last are in memory."""

    tables: PolicyTables
    window: EventWindow

    @staticmethod
    def of(count: int) -> Many:
        tables = PolicyTables("shop", _NoObjects())
        for number in range(count):
            tables.write_ids.allocate(number, f"shop.t{number:06}", 1 + number, number)
        window = EventWindow(Position(0), SharingSettings())
        events = [
            replace(created(number, f"t{number:06}"), time_s=site_states.NOW_S - 60)
            for number in range(1, 3_000)
        ]
        window.append(events, [512] * len(events))
        return Many(tables, window)

    def site(self) -> PolicySite:
        known = KnownTables(self.tables, None, LastNames())
        return PolicySite(
            site_states.troubled_status, SECTIONS, lambda _: known, lambda _: self.window.events()
        )


def test_a_table_that_was_loaded_and_not_written_since_is_shown_with_its_load() -> None:
    tables = PolicyTables("shop", _NoObjects())
    tables.loads.request("orders", "release")
    tables.loads.finish("orders", 3389, 2)
    known = KnownTables(tables, None, LastNames())
    site = PolicySite(site_states.healthy_status, SECTIONS, lambda _: known)
    with served(app_of(status=site.status, policies=site)) as server:
        listed = asked(server.port, "/policies/shop")
        shown = asked(server.port, "/policies/shop/tables/orders")
    assert 'href="/policies/shop/tables/orders"' in listed.text
    assert "The table was loaded as of event 3389 (release)." in shown.text


@pytest.mark.parametrize(("relay", "shown"), [("relay:lake", "waits for its source"), (None, "following")])
def test_a_policy_whose_relay_is_blocked_is_not_shown_as_following(relay: str | None, shown: str) -> None:
    healthy = site_states.healthy_status()
    since_s = healthy.time_s - 60
    blocked = () if relay is None else (FailedLoop(relay, "login-failed", "[login-failed] no", since_s, ""),)
    answer = page(lambda: replace(healthy, blocked_loops=blocked), "/policies/shop")
    assert re.findall(r'<p class="dim"><span class="state \w+">([^<]+)</span>', answer.text)[0] == shown


def test_a_policy_of_100_000_tables_is_shown_in_pages() -> None:
    site = Many.of(100_000).site()
    with served(app_of(status=site.status, policies=site)) as server:
        for path, expected in {
            "/policies/shop": "Page 1 of 2,001, 100,003 tables",
            "/policies/shop?page=1999": "Page 1999 of 2,001",
            "/policies/shop?filter=t0999+following": "100 tables",
            "/policies/shop?filter=quarantined": ">orders</a>",
            "/policies/shop/tables/t000017": "CREATE_TABLE",
        }.items():
            text = asked(server.port, path).text
            assert expected in text, path
            assert len(text) < 1_000_000, path


def test_rows_have_the_write_ids_and_the_last_event_in_memory() -> None:
    site = Many.of(100).site()
    with served(app_of(status=site.status, policies=site)) as server:
        answer = asked(server.port, "/policies/shop?filter=t000017")
    row = re.search(r"t000017</a>.*</tr>", answer.text)
    assert row is not None
    assert re.findall(r"<td[^>]*>(?:<[^>]*>)?([^<]*)", row[0]) == ["following", "18", "18", "1 min", "-", "-"]
