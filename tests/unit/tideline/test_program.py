"""The entry point says if another program's package 'daemon' is in the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tideline import program


ROOT = Path(__file__).parents[3]


def run(*, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the entry point with a directory that is searched for modules first."""
    code = f"import sys; sys.path[:0] = [{str(path)!r}, {str(ROOT)!r}]; sys.argv[1:] = ['version']; "
    return subprocess.run(
        [sys.executable, "-c", f"{code}from tideline.program import main; main()"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_foreign_package_daemon_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "__init__.py").write_text("")
    done = run(path=tmp_path)
    assert done.returncode == 1
    assert "another program's package 'daemon'" in done.stderr
    assert "pipx install tideline" in done.stderr


def test_python_daemon_in_the_same_environment_is_refused(tmp_path: Path) -> None:
    metadata = tmp_path / "python_daemon-3.1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: python-daemon\nVersion: 3.1.2\n")
    done = run(path=tmp_path)
    assert done.returncode == 1
    assert "python-daemon and Tideline" in done.stderr


def test_an_environment_of_its_own_runs_the_command(tmp_path: Path) -> None:
    done = run(path=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("tideline ")


def test_an_import_that_fails_for_another_reason_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "daemon.service.command_line", None)
    with pytest.raises(ModuleNotFoundError, match="command_line"):
        program.main()
