from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.servers.hdfs import render_site
from handlers.files.systems.hadoop_settings import find_configuration, read_hadoop_settings
from state.errors import ConfigError


def test_the_directory_is_found_as_clients_of_hdfs_find_it() -> None:
    assert find_configuration({}) is None
    assert find_configuration({"HADOOP_HOME": "/opt/hadoop"}) == Path("/opt/hadoop/etc/hadoop")
    assert find_configuration({"HADOOP_HOME": "/opt/hadoop", "HADOOP_CONF_DIR": "/etc/hadoop"}) == Path(
        "/etc/hadoop"
    )


def test_settings_of_both_files_are_read_and_secrets_of_other_file_systems_are_not(tmp_path: Path) -> None:
    assert read_hadoop_settings(tmp_path) == {}
    core = {"fs.defaultFS": "hdfs://lake", "fs.s3a.secret.key": "x", "hadoop.rpc.protection": "privacy"}
    (tmp_path / "core-site.xml").write_text(render_site(core | {"dfs.replication": "3"}))
    (tmp_path / "hdfs-site.xml").write_text(
        render_site({"dfs.replication": "2", "dfs.nameservices": " lake\n"})
    )
    assert read_hadoop_settings(tmp_path) == {
        "fs.defaultFS": "hdfs://lake",
        "hadoop.rpc.protection": "privacy",
        "dfs.replication": "2",
        "dfs.nameservices": "lake",
    }


def test_a_file_that_is_not_xml_is_named(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError) as caught:
        read_hadoop_settings(tmp_path)
    assert caught.value.context["path"] == str(tmp_path / "hdfs-site.xml")
