"""Completion of commands, options and names, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.service.command_line import call


ROOT = Path(__file__).parents[4]
POLICIES = """
state: {dir: STATE}
sources: {lake: {metastore: ["thrift://a:9083"], topic: t.lake, read_roots: ["file:///tmp"]}}
targets: {dr: {metastore: ["thrift://b:9083"]}}
policies:
  shop: {source: lake, target: dr, database: shop}
  ships: {source: lake, target: dr, database: ships}
  web: {source: lake, target: dr, database: web}
catalog: {lake: {rules: {all: {tables: ["shop.*"], columns: [dt]}}}}
facts: {sales: {source: lake, tables: {shop.daily: {}, shop.hourly: {}}}}
kafka: {bootstrap: "kafka:9092"}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tideline.yaml"
    path.write_text(POLICIES.replace("STATE", str(tmp_path)))
    return path


@pytest.fixture
def environment(tmp_path: Path, config: Path) -> dict[str, str]:
    """Return variables with which 'tideline' is this tree."""
    program = tmp_path / "tideline"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from daemon.service.command_line import main\nmain()\n"
    )
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TIDELINE_CONFIG": str(config)}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("tideline pau", ["pause"]),
        ("tideline pause s", ["ships", "shop"]),
        ("tideline wait --replica w", ["web"]),
        ("tideline gap source ", ["lake"]),
        ("tideline timeline rebuild shop.", ["shop.daily", "shop.hourly"]),
        ("tideline status --prob", ["--problems"]),
    ],
)
def test_bash_completes_commands_options_and_names(
    line: str, names: list[str], environment: dict[str, str]
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = (
        'source <(tideline completion bash)\nread -ra COMP_WORDS <<< "$LINE"\n'
        '[[ "$LINE" == *" " ]] && COMP_WORDS+=("")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n'
        '_tideline_completion tideline\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={**environment, "LINE": line},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == names, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_their_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["completion", shell]) == 0
    assert "_TIDELINE_COMPLETE" in capsys.readouterr().out


def test_policies_are_listed_and_shown(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["policy", "list", "-c", str(config), "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == ["ships", "shop", "web"]
    assert call(["policy", "list", "-c", str(config)]) == 0
    assert "dr/shop" in capsys.readouterr().out
    assert call(["policy", "show", "shop", "-c", str(config)]) == 0
    assert capsys.readouterr().out.startswith("name: shop\n")
    assert call(["policy", "show", "shpo", "-c", str(config)]) == 1
