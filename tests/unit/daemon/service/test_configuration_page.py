"""The page of the effective configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from daemon.http.access import Access, Gate
from daemon.http.tokens import Tokens
from daemon.service.command_line import call
from daemon.service.configuration import load_config
from daemon.service.configuration_page import configuration_page, configuration_route
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.http_client import HOST, asked, served


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_WORD", "hidden-word")
    monkeypatch.setenv("LOG_WORD", "other-word")


@contextmanager
def site() -> Iterator[tuple[int, str]]:
    """Yield the port of a site with the page, and the token of an operator."""
    values: dict[str, object] = {
        "kafka": {"bootstrap": "kafka:9092", "secrets": {"sasl.password": {"env": "KAFKA_WORD"}}},
        "keylog": {"url": "postgresql://log@db/log", "password": {"env": "LOG_WORD"}},
    }
    tokens = Tokens(())
    token = tokens.add_own("operator")
    config = config_of(values)
    app = app_of(configuration_page(config, Path("/etc/tideline.yaml")), configuration_route(config))
    with served(Gate(app, Access(tokens=tokens), lambda _: None)) as server:
        yield server.port, token


def test_operators_see_the_settings_without_secrets() -> None:
    with site() as (port, token):
        answer = asked(port, "/configuration", token=token)
    assert answer.status == 200
    assert "kafka:9092" in answer.text
    assert "/etc/tideline.yaml" in answer.text
    assert "hidden-word" not in answer.text
    assert "other-word" not in answer.text


def test_each_setting_that_is_set_has_the_line_of_the_file_or_the_variable_that_sets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tideline.yaml"
    file.write_text("kafka:\n  bootstrap: kafka:9092\nsupervisor: {drain_s: 30}\nlogs:\n  level: debug\n")
    monkeypatch.setenv("TIDELINE__SUPERVISOR__DRAIN_S", "40s")
    config = load_config(file)
    tokens = Tokens(())
    with served(
        Gate(app_of(configuration_page(config, file)), Access(tokens=tokens), lambda _: None)
    ) as server:
        answer = asked(server.port, "/configuration", token=tokens.add_own("operator"))
    rows = re.findall("<tr><td>(.*?)</td><td.*?>(.*?)</td><td.*?>(.*?)</td></tr>", answer.text)
    assert rows == [
        ("bootstrap", "kafka:9092", "line 2"),
        ("level", "debug", "line 5"),
        ("drain_s", "40s", "TIDELINE__SUPERVISOR__DRAIN_S"),
    ]


def test_viewers_see_how_to_sign_in_instead() -> None:
    with site() as (port, _):
        answer = asked(port, "/configuration")
    assert answer.status == 403
    assert "Sign in with a token" in answer.text
    assert "kafka:9092" not in answer.text


def test_the_command_shows_the_settings_of_a_daemon_elsewhere_to_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with site() as (port, token):
        (tmp_path / "token").write_text(token)
        where = ["config", "show", "--url", f"http://{HOST}:{port}"]
        assert call([*where, "--token-file", str(tmp_path / "token")]) == 0
        shown = capsys.readouterr().out
        assert call(where) == 1
        refused = capsys.readouterr().err
    assert "bootstrap: kafka:9092" in shown
    assert "drain_s: 20s" in shown
    assert "hidden-word" not in shown
    assert refused.startswith("Error [unauthenticated]")


def test_the_page_is_accessible_on_a_phone() -> None:
    with site() as (port, token), launched_browser() as browser:
        page = browser.new_page(
            viewport={"width": 390, "height": 900}, http_credentials={"username": "x", "password": token}
        )
        # Anonymous clients may view this site, so the browser requests a login only here.
        page.goto(f"http://127.0.0.1:{port}/login")
        page.get_by_role("link", name="Configuration").click()
        page.get_by_role("heading", name="kafka").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
