"""The class archive of drivers: when it is used, and how it is replaced."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import ConfigError, StateLocked
from streaming.driver import class_archive
from streaming.driver.class_archive import (
    CLASS_PATH,
    NAME,
    OPTIONS,
    SETTINGS,
    VARIABLE,
    build_conf,
    build_training,
    find_path,
    is_whole,
    replace_archive,
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an archive that does not exist yet, among jars of a Spark."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    for name in ("b.jar", "a.jar", "c.txt"):
        (jars / name).touch()
    named = tmp_path / "installation" / NAME
    monkeypatch.setenv(VARIABLE, str(named))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return named


def write(content: str) -> Path:
    with replace_archive() as (path, beside):
        (beside / NAME).write_text(content)
    return path


def test_without_an_archive_spark_starts_with_its_own_class_path(path: Path) -> None:
    assert not path.exists()
    assert build_conf({}) == {}


def test_an_archive_is_used_with_the_jars_in_a_fixed_order(path: Path, tmp_path: Path) -> None:
    write("classes")
    conf = build_conf({})
    assert f'"-XX:SharedArchiveFile={path}"' in conf[OPTIONS]
    assert conf[CLASS_PATH] == f"{tmp_path}/spark/jars/a.jar:{tmp_path}/spark/jars/b.jar"


@given(content=st.binary(max_size=100), data=st.data())
def test_only_the_whole_archive_of_a_writer_is_used(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("archive") / NAME
    path.write_bytes(content)
    assert not is_whole(path)
    class_archive._seal(path)
    assert is_whole(path)
    sealed = path.read_bytes()
    path.write_bytes(sealed[: data.draw(st.integers(0, len(sealed) - 1))])
    assert not is_whole(path)
    at = data.draw(st.integers(0, len(sealed) - 1))
    path.write_bytes(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
    assert not is_whole(path)


@pytest.mark.parametrize("setting", [OPTIONS, CLASS_PATH])
def test_settings_of_the_user_take_precedence(path: Path, setting: str) -> None:
    write("classes")
    assert path.exists()
    assert build_conf({setting: "mine"}) == {}


def test_a_directory_of_settings_of_the_user_may_set_the_class_path_so_it_stays_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("classes")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert build_conf({}) == {}
    monkeypatch.setenv("SPARK_CONF_DIR", SETTINGS)
    assert OPTIONS in build_conf({}), path


def test_the_archive_belongs_to_the_installation_and_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = find_path()
    assert found is not None
    assert found.is_relative_to(sys.prefix)
    monkeypatch.setenv(VARIABLE, "")
    assert find_path() is None
    assert build_conf({}) == {}


@pytest.mark.parametrize("name", ["a:b", 'a"b'])
def test_a_path_that_java_would_split_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / name))
    assert build_conf({}) == {}
    with pytest.raises(ConfigError, match="path"):
        write("classes")


def test_writing_an_archive_that_is_switched_off_says_what_to_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_CLASS_ARCHIVE", "")
    with pytest.raises(ConfigError) as caught, class_archive.replace_archive():
        pass
    assert "Unset TIDELINE_CLASS_ARCHIVE" in caught.value.hint


def test_a_writer_that_fails_leaves_the_former_archive_and_nothing_else(path: Path) -> None:
    write("former")

    def fail() -> None:
        with replace_archive() as (_, beside):
            (beside / NAME).write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes().startswith(b"former")
    assert list(path.parent.iterdir()) == [path]


def test_a_driver_that_wrote_no_archive_is_an_error_and_the_former_one_stays(path: Path) -> None:
    write("former")
    with pytest.raises(ConfigError, match="not written"), replace_archive():
        pass
    assert path.read_bytes().startswith(b"former")


def test_a_directory_that_cannot_be_made_is_an_error_with_a_hint(path: Path) -> None:
    path.parent.write_text("a file")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        write("classes")
    assert VARIABLE in caught.value.hint


def test_one_process_at_a_time_writes_and_what_a_killed_one_left_is_removed(path: Path) -> None:
    left = path.parent / f"{class_archive._UNFINISHED}killed"
    left.mkdir(parents=True)
    (left / NAME).write_text("half")
    with replace_archive() as (_, beside):
        assert not left.exists()
        with pytest.raises(StateLocked):
            write("second")
        (beside / NAME).write_text("first")
    assert path.read_bytes().startswith(b"first")


def test_the_driver_that_writes_it_reads_two_batches_with_rows_of_all_kinds(
    tmp_path: Path, path: Path
) -> None:
    settings = build_training(tmp_path, path)
    settings.check()
    assert f"-XX:ArchiveClassesAtExit={path}" in settings.spark.conf[OPTIONS]
    first, second = (tmp_path / "landing" / name for name in ("0.json", "1.json"))
    *rows, malformed = first.read_text().splitlines()
    assert {"at", "n", "f", "b", "s", "o"} == json.loads(rows[0]).keys()
    assert not malformed.startswith("{")
    assert json.loads(second.read_text().splitlines()[0])["f"] == "text"
