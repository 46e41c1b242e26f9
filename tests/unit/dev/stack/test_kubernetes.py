"""Building the API server of Kubernetes, with a script in place of Go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev.stack.downloads.jars import LOCKS
from dev.stack.errors import FetchFailed, Missing
from dev.stack.servers.kubernetes import ETCD, VERSION, build_programs


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def a_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, fails_at: str = "nothing") -> Path:
    """Put a script named ``go`` first on the path; return the file in which it records what it builds."""
    programs, asked = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    script = programs / "go"
    script.write_text(
        "#!/bin/sh\n[ $1 = env ] && echo go1.26.8 && exit\ngrep -c h1: go.sum > /dev/null || exit 1\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f'echo $3 >> {asked}; [ $3 = {fails_at} ] && exit 1; echo program > "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return asked


def test_both_programs_are_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    asked = a_go(monkeypatch, tmp_path)
    built = build_programs()
    assert build_programs() == built
    assert sorted(path.name for path in built.iterdir()) == ["etcd", "kube-apiserver"]
    assert len(asked.read_text().split()) == 2
    assert [path.name for path in (cache / "go").iterdir()] == [f"kubernetes-{VERSION}"]


def test_nothing_is_kept_of_an_incomplete_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    a_go(monkeypatch, tmp_path, fails_at=ETCD)
    with pytest.raises(FetchFailed):
        build_programs()
    assert list((cache / "go").iterdir()) == []


def test_without_go_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="required to build the API server"):
        build_programs()


def test_the_module_pins_the_version_that_the_server_reports() -> None:
    assert f"k8s.io/kubernetes v{VERSION}\n" in (LOCKS / "kubernetes" / "go.mod").read_text()
