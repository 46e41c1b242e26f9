"""The class archive of drivers with a real JVM: one that fits is used, and one that does not fit changes
nothing but the time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from streaming.driver import class_archive
from streaming.driver.class_archive import NAME, VARIABLE
from tests.builders.daemon.tideline_process import write_config


pytestmark = pytest.mark.long
DEADLINE_S = 600.0
ROWS = 20
ARCHIVED = "source: shared objects file (top)"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run_tideline(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a command that must succeed; return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "daemon", "split", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive as an operator makes it."""
    path = tmp_path_factory.mktemp("installation") / NAME
    made = json.loads(run_tideline({VARIABLE: str(path)}, "prepare", "--json"))
    assert made == {"path": str(path), "bytes": path.stat().st_size}
    assert list(path.parent.iterdir()) == [path]
    return path


def run_driver(directory: Path, environment: Mapping[str, str]) -> list[str]:
    """Run a driver once and check its only batch; return where its JVM got each class from."""
    (directory / "landing").mkdir(parents=True)
    events = [json.dumps({"epoch": 1_461_013_200 + number, "n": number}) for number in range(ROWS)]
    (directory / "landing" / "events.json").write_text("\n".join(events))
    table = {
        "table": "default.events",
        "raw_table": "default.raw",
        "location": str(directory / "table"),
        "checkpoint": str(directory / "checkpoint"),
        "source": {"kind": "directory", "path": str(directory / "landing")},
        "event_time": {"key": "epoch"},
        "rules": {"whitelist": ["$.n"], "probation_values": 1},
        "spark": {
            "conf": {
                "spark.driver.extraJavaOptions": f"{QUICK} -Xlog:class+load:file={directory}/classes.log"
            }
        },
    }
    config = write_config(directory, {"flat": {"events": table}})
    output = run_tideline(environment, "run", "events", "--once", "--json", "-c", str(config))
    # Every line is an event: a JVM that rejects an archive prints nothing among them.
    events_told = [json.loads(line) for line in output.splitlines()]
    assert [event["rows"] for event in events_told if event["event"] == "progress"] == [ROWS]
    return [line for line in (directory / "classes.log").read_text().splitlines() if "source: " in line]


def test_a_driver_takes_most_of_its_classes_from_the_archive(archive: Path, tmp_path: Path) -> None:
    loaded = run_driver(tmp_path, {VARIABLE: str(archive)})
    archived = [line for line in loaded if ARCHIVED in line]
    assert len(archived) > len(loaded) / 2
    assert any(f"org.apache.spark.SparkContext {ARCHIVED}" in line for line in archived)


def test_without_an_archive_a_driver_takes_none_of_its_classes_from_one(tmp_path: Path) -> None:
    for name, path in {"off": "", "missing": str(tmp_path / "none")}.items():
        assert not [line for line in run_driver(tmp_path / name, {VARIABLE: path}) if ARCHIVED in line]


def test_half_an_archive_does_no_harm(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    damaged = tmp_path / NAME
    damaged.write_bytes(content[: len(content) // 2])
    assert not [line for line in run_driver(tmp_path, {VARIABLE: str(damaged)}) if ARCHIVED in line]


def test_an_archive_of_another_java_does_no_harm(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    damaged = tmp_path / NAME
    damaged.write_bytes(content.replace(b"OpenJDK", b"OtherVM", 1))
    assert damaged.read_bytes() != content
    class_archive._seal(damaged)
    assert class_archive.is_whole(damaged)
    assert not [line for line in run_driver(tmp_path, {VARIABLE: str(damaged)}) if ARCHIVED in line]


def copy_spark(home: Path) -> None:
    """Make a Spark of links, in which one jar is another."""
    pyspark = pytest.importorskip("pyspark")
    own = Path(pyspark.__path__[0])
    (home / "jars").mkdir(parents=True)
    for file in (*own.iterdir(), *(own / "jars").glob("*.jar")):
        if file.name != "jars":
            (home / file.relative_to(own)).symlink_to(file)
    (jar,) = (home / "jars").glob("spark-core_*.jar")
    source = jar.resolve()
    jar.unlink()
    shutil.copyfile(source, jar)


def test_the_archive_of_another_spark_does_no_harm(archive: Path, tmp_path: Path) -> None:
    copy_spark(tmp_path / "other")
    environment = {VARIABLE: str(archive), "SPARK_HOME": str(tmp_path / "other")}
    assert not [line for line in run_driver(tmp_path, environment) if ARCHIVED in line]
