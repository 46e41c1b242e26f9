"""What is missing on a machine is named before Spark starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from state.errors import ConfigError
from streaming.driver import installation, session
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def a_java(tmp_path: Path) -> Callable[[str], Path]:
    """Create the home of a Java that reports a version."""

    def made(version: str) -> Path:
        program = tmp_path / version / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
        return program.parent.parent

    return made


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1", "21"])
def test_java_home_of_the_user_is_used(
    a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = a_java(version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    installation.use_java()
    assert os.environ["JAVA_HOME"] == str(home)


def test_an_unsupported_java_is_replaced_by_one_on_the_path(
    a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = a_java("17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(a_java("1.8.0_402")))
    monkeypatch.setenv("PATH", f"{right / 'bin'}:/usr/bin:/bin")
    installation.use_java()
    assert os.environ["JAVA_HOME"] == str(right)


def test_without_a_supported_java_the_error_says_what_to_install(
    a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_java("11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(installation, "_find_java_homes", lambda: [old, old.parent / "none"])
    with pytest.raises(ConfigError, match="17") as caught:
        installation.use_java()
    assert caught.value.context["found"] == {str(old): 11, str(old.parent / "none"): 0}
    assert "JAVA_HOME" in caught.value.hint


def test_without_a_program_the_session_does_not_start_and_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bash", "dirname"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installation, "check_installed", lambda: None)
    with pytest.raises(ConfigError, match=r"PATH does not contain: chmod \(") as caught:
        session.start(SparkSettings())
    assert "coreutils" in caught.value.hint
    (tmp_path / "chmod").touch(mode=0o755)
    installation.require_programs()
