"""Building the object store, with a script in place of Go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dev.stack import object_store
from dev.stack.errors import FetchFailed, Missing
from dev.stack.object_store import CHECKSUM, build_server, main


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def a_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, version: str = "go1.26.8", checksum: str = CHECKSUM
) -> Path:
    """Put a script named ``go`` first on the path; return the file in which it records its arguments."""
    programs, source, asked = tmp_path / "bin", tmp_path / "source", tmp_path / "asked"
    programs.mkdir()
    source.mkdir()
    told = json.dumps({"Sum": checksum, "Dir": str(source)})
    script = programs / "go"
    script.write_text(
        f"#!/bin/sh\necho $1 >> {asked}\n"
        f"case $1 in env) echo {version};; mod) echo '{told}';;\n"
        'build) while [ "$1" != -o ]; do shift; done; echo program > "$2";; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return asked


def test_it_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    asked = a_go(monkeypatch, tmp_path)
    assert build_server().read_text() == "program\n"
    assert build_server() == build_server()
    assert asked.read_text().split() == ["env", "mod", "build"]
    assert [path.name for path in (cache / "go").iterdir()] == [f"minio-{object_store.VERSION}"]


def test_source_other_than_the_pinned_one_is_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    a_go(monkeypatch, tmp_path, checksum="h1:other")
    with pytest.raises(FetchFailed, match="h1:other"):
        build_server()
    assert not list((cache / "go").glob("*/minio"))


def test_without_go_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="required to build the object store"):
        build_server()
    assert main(["run", "true"]) == 1
    assert "install it" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["go1.23.4", "devel"])
def test_an_older_go_is_refused_before_anything_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    asked = a_go(monkeypatch, tmp_path, version=version)
    with pytest.raises(Missing, match="newer is required"):
        build_server()
    assert asked.read_text().split() == ["env"]
