"""What is missing on a machine is named before Spark starts."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from state.errors import ConfigError
from streaming.driver import installation, session
from streaming.settings import SparkSettings


ROOT = Path(__file__).parents[4]


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


@pytest.mark.parametrize("version", ["3.5.6", "4.1.0", "4.3.0.dev1", "40.0.0"])
def test_a_spark_of_another_minor_version_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    installation.check_installed()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{version}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=f"Spark {re.escape(version)} is not supported.*Spark 4.0"):
        session.start(SparkSettings())
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(ConfigError, match=f"PySpark {re.escape(version)} is not supported") as caught:
        session.start(SparkSettings())
    assert "tideline[flat]" in caught.value.hint


def test_another_build_of_the_same_minor_version_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.3-vendor-1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    installation.check_installed()


def test_the_extra_installs_the_spark_that_is_tested() -> None:
    """Otherwise pip chooses the newest version, which no test has run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (required,) = [each for each in project["optional-dependencies"]["flat"] if each.startswith("pyspark")]
    assert required == f"pyspark=={pyspark.__version__}"
    assert pyspark.__version__.startswith(f"{installation.SPARK}.")
    assert f"{required} " in (ROOT / "requirements" / "flat.txt").read_text(encoding="utf-8")
