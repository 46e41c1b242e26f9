"""Messages name pages as their reader finds them: by the site of ``docs.url``, or by a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from daemon.process.docs_address import use_site, with_addresses
from daemon.service.command_line import tideline
from daemon.service.configuration import load_config
from daemon.status.actions import list_actions
from daemon.status.report.text import card_text
from daemon.terminal.layout import failure_lines
from state.errors import Inconsistent
from tests.builders.daemon.operator_states import EVERYTHING


HINT = "See docs/runbooks/relay.md#dead-letters, or docs/FILE_SYSTEMS.md."


@pytest.fixture(autouse=True)
def no_site() -> Iterator[None]:
    yield
    use_site("")


def test_without_a_site_the_command_is_named() -> None:
    shown = with_addresses(HINT)
    assert shown == "See tideline docs runbooks/relay dead-letters, or tideline docs file-systems."


def test_with_a_site_the_address_is_named() -> None:
    use_site("https://docs.example.org/tideline/")
    base = "https://docs.example.org/tideline"
    assert (
        with_addresses(HINT) == f"See {base}/runbooks/relay.html#dead-letters, or {base}/FILE_SYSTEMS.html."
    )
    assert with_addresses("docs/reference/README.md") == f"{base}/reference/index.html"


def test_errors_and_the_status_name_the_site_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text("docs: {url: https://docs.example.org}\n")
    load_config(config)
    error = Inconsistent("it differs", hint=HINT)
    assert any(
        "https://docs.example.org/runbooks/relay.html#dead-letters" in line for line in failure_lines(error)
    )
    action = list_actions(EVERYTHING)[0]
    assert "see: https://docs.example.org/" in card_text(action, 0)


def test_every_command_that_the_status_names_shows_a_section() -> None:
    for action in list_actions(EVERYTHING):
        found = re.search(r"see: tideline (docs .+)", card_text(action, 0))
        assert found
        shown = CliRunner().invoke(tideline, found[1].split())
        assert shown.exit_code == 0, shown.output
