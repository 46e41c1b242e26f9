"""The site in a real browser: accessible in both themes and on a phone, and its buttons act."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from starlette.routing import Route

from daemon.http.access import Access, Gate
from daemon.http.actions import Audit
from daemon.http.endpoints import JSON, Made, made_response, may_operate
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.status.model import NEW
from state.errors import Forbidden
from tests.builders.daemon import site_states
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.http_client import served
from tests.builders.daemon.loops import daemon_status
from tests.builders.daemon.site_catalog import all_pages, catalog_pages


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from starlette.requests import Request
    from starlette.responses import Response


STATES = {
    "empty": site_states.empty_status,
    "healthy": site_states.healthy_status,
    "behind": site_states.behind_status,
    "blocked": site_states.blocked_status,
    "troubled": site_states.troubled_status,
    "large": site_states.large_status,
}
VIEWS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 1280), ("dark", 390))
"""Theme, and width of the window."""
TOKEN = "o" * 32


def login(token: str) -> dict[str, str]:
    """Return the header that a browser sends after a login."""
    return {"Authorization": f"Basic {b64encode(f'ada:{token}'.encode()).decode()}"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched_browser() as launched:
        yield launched


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_accessible_in_both_themes_and_on_a_phone(browser: Browser, state: str) -> None:
    status = STATES[state]()
    with served(app_of(status=lambda: status, history=site_states.last_day)) as server:
        for scheme, width in VIEWS:
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
            page.goto(f"http://127.0.0.1:{server.port}/")
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.console_messages() == []
            page.close()


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/docs",
        "/docs/runbooks",
        "/docs/none",
        "/policies",
        "/policies/shop",
        "/policies/geo",
        "/policies/shop/tables/orders",
        "/policies/geo/tables/regions",
        "/policies/shop/tables/clicks",
        "/timelines",
        "/timelines/db.visits?from=2023-01-10&to=2023-02-10&where=between",
        "/timelines/db.visits?from=soon&to=later",
        "/partitions",
        "/partitions/db.visits?filter=dt+%3E%3D+%272023-02-01%27+and+x+%3D+%27eu%27",
        "/partitions/db.visits?filter=dt",
        "/endpoints",
        "/events",
        "/logs",
        "/actions",
    ],
)
def test_the_other_pages_are_accessible_on_a_phone(browser: Browser, path: str) -> None:
    status = site_states.troubled_status
    app = app_of(*all_pages(status), status=status)
    with served(app) as server:
        for scheme, width in VIEWS[::2]:
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
            page.goto(f"http://127.0.0.1:{server.port}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            page.close()


def test_dragging_over_a_timeline_fills_in_the_range_and_the_condition_is_copied(browser: Browser) -> None:
    with served(app_of(*catalog_pages())) as server:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/timelines/db.visits")
        box = page.locator("[data-brush] .lane").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
        page.mouse.up()
        values = [page.input_value(f"[name={name}]") for name in ("from", "to")]
        assert [value[:10] for value in values] == ["2023-02-01", "2023-02-24"]
        page.fill("[name=from]", "2023-02-01")
        page.fill("[name=to]", "2023-03-01")
        page.get_by_role("button", name="Cover").click()
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert "2023-02-01" in page.evaluate("navigator.clipboard.readText()")
        context.close()


def test_the_switch_changes_the_theme_and_the_choice_is_kept(browser: Browser) -> None:
    with served(app_of()) as server:
        page = browser.new_page(color_scheme="light")
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.click("#theme")
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.close()


def test_an_operator_resumes_a_policy_after_being_asked(browser: Browser, tmp_path: Path) -> None:
    asked: list[Any] = []

    async def resume(request: Request) -> Response:
        asked.append((await request.json(), may_operate(request)))
        return await made_response(request, lambda: Made(b"{}", JSON))

    (tmp_path / "token").write_text(TOKEN)
    tokens = Tokens([TokenFile(Client("ada", Role.OPERATE), tmp_path / "token")])
    app = app_of(
        Route("/api/v1/policies/hr/resume", resume, methods=["POST"]), status=site_states.troubled_status
    )
    access = Access(tokens=tokens, allows_anonymous=False)
    with served(Gate(app, access, lambda _: None)) as server:
        page = browser.new_page(http_credentials={"username": "ada", "password": TOKEN})
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.locator("article", has_text="Paused policy").get_by_role("button", name="Resume").click()
        assert "continues from its position" in page.inner_text("#ask-text")
        assert asked == []
        page.click("#ask-yes")
        page.get_by_text("Done.").wait_for()
        page.close()
    assert asked == [({}, True)]


def test_an_operator_retires_a_policy_only_by_its_name_and_bootstraps_a_new_one(
    browser: Browser, tmp_path: Path
) -> None:
    asked: list[Any] = []

    async def act(request: Request) -> Response:
        asked.append((request.path_params["action"], await request.json()))
        unchanged = b'{"changed": false, "waits_for": "The policy waits for its bootstrap."}'
        body = unchanged if request.path_params["action"] == "pause" else b"{}"
        return await made_response(request, lambda: Made(body, JSON))

    (tmp_path / "token").write_text(TOKEN)
    tokens = Tokens([TokenFile(Client("ada", Role.OPERATE), tmp_path / "token")])
    views = (site_states.policy_view("shop"), site_states.policy_view("fresh", state=NEW))
    status = replace(site_states.healthy_status(), projections=views)
    app = app_of(
        Route("/api/v1/policies/{name}/{action}", act, methods=["POST"]),
        status=lambda: status,
    )
    access = Access(tokens=tokens, allows_anonymous=False)
    with served(Gate(app, access, lambda _: None)) as server:
        page = browser.new_page(http_credentials={"username": "ada", "password": TOKEN})
        page.goto(f"http://127.0.0.1:{server.port}/policies/shop")
        colour = "element => getComputedStyle(element).color"
        plain, danger = (
            page.get_by_role("button", name=name).evaluate(colour) for name in ("Pause", "Retire")
        )
        assert plain != danger, "an action that cannot be undone looks different"
        page.get_by_role("button", name="Retire").click()
        assert "ends, and cannot resume" in page.inner_text("#ask-text")
        for name in ("", "sho", "SHOP"):
            page.get_by_label("Type shop to confirm:").fill(name)
            assert page.locator("#ask-yes").is_disabled()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert asked == []
        page.get_by_label("Type shop to confirm:").fill("shop")
        page.click("#ask-yes")
        page.get_by_text("Done.").wait_for()
        page.click("#ask-no")
        page.get_by_role("button", name="Pause").click()
        assert page.locator("#ask-typed").is_hidden()
        page.get_by_label("Reason (optional):").fill("new disks")
        page.click("#ask-yes")
        page.get_by_text("Nothing has changed. The policy waits for its bootstrap.").wait_for()

        page.goto(f"http://127.0.0.1:{server.port}/policies/fresh")
        assert page.get_by_role("button", name="Retire").count() == 0
        page.get_by_role("button", name="Bootstrap").first.click()
        assert "creates the replica of policy fresh" in page.inner_text("#ask-text")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.click("#ask-yes")
        page.get_by_text("Done.").wait_for()
        page.close()
    assert asked == [("retire", {}), ("pause", {"reason": "new disks"}), ("bootstrap", {})]


def test_a_viewer_sees_no_buttons_of_actions(browser: Browser) -> None:
    with served(app_of(status=site_states.troubled_status)) as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        assert page.locator("article").count() >= 10
        assert page.locator("[data-action]").count() == 0
        page.close()


def test_the_page_follows_the_status_without_a_reload(browser: Browser) -> None:
    statuses = [daemon_status(host="before")]
    with served(app_of(status=lambda: statuses[-1])) as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        statuses.append(daemon_status(host="after"))
        page.evaluate("htmx.trigger('#live', 'refresh')")
        page.get_by_text("on after for").wait_for()
        page.close()


def test_the_list_of_tables_follows_the_state_of_its_policy(browser: Browser) -> None:
    healthy = site_states.healthy_status()
    views = tuple(replace(view, state="paused") for view in healthy.projections)
    found = [replace(healthy, projections=views)]
    with served(app_of(status=lambda: found[0])) as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/policies/shop")
        row = page.get_by_role("group", name="Tables").get_by_role("row", name="orders")
        row.get_by_text("paused").wait_for()
        page.get_by_role("searchbox").fill("ord")
        found[0] = healthy
        page.evaluate("htmx.trigger('#live', 'refresh')")
        row.get_by_text("following").wait_for()
        assert page.get_by_role("searchbox").input_value() == "ord"
        page.close()


def test_a_page_says_that_its_values_are_old_when_the_daemon_is_gone(browser: Browser) -> None:
    with served(app_of()) as server:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        assert page.locator("#stale").is_hidden()
    page.evaluate("htmx.trigger('#live', 'refresh')")
    page.get_by_text("The daemon cannot be reached. You see the values of").wait_for()
    assert Axe().run(page).violations_count == 0
    page.close()


def test_a_page_requests_a_login_once_its_token_was_exchanged(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    tokens = Tokens([TokenFile(Client("ada", Role.OPERATE), file)])
    access = Access(tokens=tokens, allows_anonymous=False)
    status = site_states.troubled_status
    with served(Gate(app_of(status=status), access, lambda _: None)) as server:
        page = browser.new_page()
        page.set_extra_http_headers(login(TOKEN))
        page.goto(f"http://127.0.0.1:{server.port}/")
        file.write_text("n" * 32)
        page.evaluate("htmx.trigger('#live', 'refresh')")
        page.get_by_text("The daemon does not accept your token any more").wait_for()
        page.set_extra_http_headers(login("n" * 32))
        page.get_by_role("link", name="Sign in again").click()
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.locator("#stale").is_hidden()
        page.close()


def test_the_overview_and_its_own_page_show_who_did_what(browser: Browser) -> None:
    audit = Audit(clock=lambda: 0.0)
    audit.record("ada", "release", "shop", None, {"table": "orders"})
    audit.record("eve", "pause", "hr", Forbidden("the token may not act"))
    with served(app_of(actions=audit.last)) as server:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        for path in ("/", "/actions"):
            page.goto(f"http://127.0.0.1:{server.port}{path}")
            rows = page.get_by_role("group", name="Actions").get_by_role("row").all_inner_texts()
            assert [row.split("\t")[1:5] for row in rows[1:]] == [
                ["eve", "pause", "hr", "-"],
                ["ada", "release", "shop", "table: orders"],
            ]
            assert "the token may not act" in rows[1]
            assert Axe().run(page).violations_count == 0
        page.goto(f"http://127.0.0.1:{server.port}/actions?filter=orders")
        assert page.get_by_role("row").count() == 2
        page.close()
