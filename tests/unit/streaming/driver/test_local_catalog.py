"""Spark's own metastore in the table's directory: Spark's settings and the directory."""

from __future__ import annotations

import fcntl
from dataclasses import replace
from pathlib import Path

import pytest

from state.errors import ConfigError, StateLocked
from streaming.driver import assembly, commands
from streaming.driver.local_catalog import (
    CATALOG,
    DIRECTORY,
    build_conf,
    is_missing,
    make_directory,
    open_ahead,
)
from tests.builders.flat.streams import SETTINGS, rules


@pytest.mark.parametrize("location", ["/w/events/", "file:/w/events", "file:///w/events"])
def test_the_catalog_is_hidden_in_the_tables_directory(location: str) -> None:
    conf = build_conf(replace(SETTINGS, location=location))
    assert conf["spark.sql.warehouse.dir"] == "/w/events/.warehouse"
    assert "databaseName=/w/events/.metastore;" in conf["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert conf["spark.driver.extraJavaOptions"].endswith("=/w/events/.metastore.log")


def test_a_table_with_a_metastore_or_another_catalog_needs_no_settings() -> None:
    elsewhere = replace(SETTINGS, location="hdfs://nn/t", metastores=("thrift://m:9083",))
    chosen = replace(SETTINGS, spark=replace(SETTINGS.spark, conf={CATALOG: "in-memory"}))
    for settings in (elsewhere, chosen):
        assert build_conf(settings) == {}
        assert open_ahead(settings, {}) is None
        make_directory(settings)
    assert not Path("/warehouse/flat").exists()


@pytest.mark.parametrize("act", [build_conf, make_directory])
def test_a_table_without_a_metastore_must_be_on_a_local_disk(act: object) -> None:
    assert callable(act)
    with pytest.raises(ConfigError, match="local disk"):
        act(replace(SETTINGS, location="s3a://bucket/t"))


def test_the_directory_exists_before_derby_writes_its_log(tmp_path: Path) -> None:
    settings = replace(SETTINGS, location=f"{tmp_path}/deep/events")
    make_directory(settings)
    make_directory(settings)
    assert (tmp_path / "deep" / "events").is_dir()


def test_a_directory_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="directory cannot be created"):
        make_directory(replace(SETTINGS, location=f"{tmp_path}/file/events"))


def test_a_plan_of_a_table_without_a_catalog_creates_nothing_and_needs_no_spark(tmp_path: Path) -> None:
    settings = replace(
        SETTINGS, location=f"{tmp_path}/events", checkpoint=f"{tmp_path}/checkpoint", rules=rules("a.b")
    )
    assert is_missing(settings)
    waiting = commands.plan(settings).demand.unseen
    assert [str(each.key) for each in waiting] == []
    decisions = commands.plan(settings).demand.decisions
    assert [str(key) for key in decisions] == ["$.a.b"]
    assert list(tmp_path.iterdir()) == []


def test_a_plan_beside_a_driver_on_sparks_own_catalog_answers_at_once_that_it_is_locked(
    tmp_path: Path,
) -> None:
    settings = replace(SETTINGS, location=f"{tmp_path}/events")
    make_directory(settings)
    (tmp_path / "events" / DIRECTORY).mkdir()
    name = assembly.lock_path(settings)
    with name.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StateLocked):
            commands.plan(settings)


def test_a_catalog_whose_creation_was_interrupted_is_removed_and_a_complete_one_stays(tmp_path: Path) -> None:
    settings = replace(SETTINGS, location=str(tmp_path))
    catalog = tmp_path / DIRECTORY
    (catalog / "seg0").mkdir(parents=True)
    make_directory(settings)
    assert not catalog.exists()
    (catalog / "seg0").mkdir(parents=True)
    (catalog / "service.properties").touch()
    make_directory(settings)
    assert (catalog / "seg0").is_dir()
