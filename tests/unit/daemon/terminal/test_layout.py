"""What commands print cannot change the terminal, whatever tables are called."""

from __future__ import annotations

import json

import pytest

from daemon.terminal.application import echo, print_text
from daemon.terminal.layout import StatusLine


NAMES = [
    "\x1b]0;owned\x07",
    "a\x9b31mb",
    "\x9d0;owned\x9c",
    "\x7f",
    "a\rb",
    "evil\u202etxt",
    "\x1b[2J",
    "\u2066x",
]


@pytest.mark.parametrize("name", NAMES)
def test_controls_in_names_reach_neither_text_nor_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo({"table": name}, False, lambda answer: f"TABLE\n{answer['table']}  größe 表 é\n")
    printed = capsys.readouterr().out
    assert all(character.isprintable() for character in printed.replace("\n", ""))
    assert "größe 表 é" in printed
    echo({"table": name}, True, str)
    printed = capsys.readouterr().out
    assert all(character.isprintable() for character in printed.replace("\n", ""))
    assert json.loads(printed) == {"table": name}


@pytest.mark.parametrize("name", NAMES)
def test_controls_in_names_reach_no_other_line_of_a_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(f"{name}: größe\n表", err=True)
    printed = capsys.readouterr().err
    assert printed.replace("\n", "").isprintable()
    assert printed.endswith(": größe\n表\n")


def test_progress_on_a_terminal_shows_names_without_controls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    StatusLine(quiet=False).show("".join(NAMES))
    printed = capsys.readouterr().err.removeprefix("\r\x1b[2K")
    assert printed.isprintable()
