"""Runs the machine's Go compiler, for components whose authors publish no binaries.

Go's own settings (``GOPROXY``) decide where modules come from. Checksums in this repository pin everything
that is built, so Go does not consult its checksum database. During a build, the sources and Go's cache are
next to the result; they are removed afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from dev.stack.errors import FetchFailed, Missing


def check_go(oldest: tuple[int, int], what: str) -> None:
    """Raise Missing if Go is absent or older than ``oldest``. The error names ``what`` Go has to build."""
    newer = f"Go {oldest[0]}.{oldest[1]} or newer is required"
    if shutil.which("go") is None:
        raise Missing(f"{newer} to build {what}: install it")
    answer = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < oldest:
        raise Missing(f"{newer}, found {answer.stdout.strip() or 'unknown'}")


def run_go(scratch: Path, *arguments: str, within: Path) -> str:
    """Run Go with all its own files below ``scratch`` and return its output; raise FetchFailed."""
    environment = os.environ | {
        "GOPATH": str(scratch / "path"),
        "GOCACHE": str(scratch / "cache"),
        "GOTMPDIR": str(scratch),
        "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOSUMDB": "off",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    done = subprocess.run(
        ["nice", "go", *arguments], cwd=within, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-2000:]
        raise FetchFailed(
            f"go {arguments[0]} failed; to use another source of modules, set GOPROXY. {output}"
        )
    return done.stdout
