"""Pages of policies: the list, its filter and its pages, and one policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.builders.daemon import site_states
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.http_client import Answer, asked, served


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.status.model import DaemonStatus


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


def test_a_policy_shows_its_point_loads_and_tables() -> None:
    answer = page(site_states.healthy_status, "/policies/shop")
    assert "30.0 GiB of 80.0 GiB" in answer.text
    assert "90,411" in answer.text
    assert names(answer) == []
    only = page(site_states.healthy_status, "/policies/shop?filter=loading")
    assert ("<td>clicks</td>" in only.text, "<td>orders</td>" in only.text) == (True, False)


def test_a_policy_shows_only_its_own_trouble() -> None:
    answer = page(site_states.troubled_status, "/policies/geo")
    assert "OutOfMemoryError" in answer.text
    assert "file-lost" not in answer.text


def test_an_unknown_policy_is_not_found() -> None:
    assert page(site_states.healthy_status, "/policies/none").status == 404
