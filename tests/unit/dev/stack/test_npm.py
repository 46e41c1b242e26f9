from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dev.stack.downloads import npm
from dev.stack.downloads.npm import Package, fetch_package, find_registry
from dev.stack.errors import FetchFailed, Missing


CONTENT = b"an archive"
PINNED = Package("@scope/name", "1.2.3", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without settings, without npm and with an empty cache."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("npm_config_registry", raising=False)


def served(monkeypatch: pytest.MonkeyPatch, directory: Path, content: bytes) -> None:
    file = directory / "registry" / PINNED.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    monkeypatch.setattr(npm, "find_registry", lambda: f"file://{directory}/registry")


def test_the_environment_comes_before_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text('fund=false\nregistry="https://one.example/npm/"\n')
    assert find_registry() == "https://one.example/npm"
    monkeypatch.setenv("npm_config_registry", "https://two.example")
    assert find_registry() == "https://two.example"


def test_without_a_registry_the_message_says_what_to_set() -> None:
    with pytest.raises(Missing, match="npm_config_registry"):
        find_registry()


def test_only_web_addresses_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "file:///etc")
    with pytest.raises(Missing, match="https"):
        find_registry()


def test_an_archive_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served(monkeypatch, tmp_path, CONTENT)
    assert fetch_package(PINNED).read_bytes() == CONTENT
    (tmp_path / "registry" / PINNED.path).unlink()
    assert fetch_package(PINNED).read_bytes() == CONTENT


def test_an_archive_other_than_the_pinned_one_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served(monkeypatch, tmp_path, b"another")
    with pytest.raises(FetchFailed, match="sha256 mismatch"):
        fetch_package(PINNED)
    assert not list((tmp_path / "cache").rglob("*.tgz"))


def test_a_missing_archive_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(npm, "find_registry", lambda: f"file://{tmp_path}/registry")
    with pytest.raises(FetchFailed, match=r"@scope/name 1\.2\.3"):
        fetch_package(PINNED)
