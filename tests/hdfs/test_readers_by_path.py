"""A flat table on HDFS is read by its directory, without a JVM."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner
from pyarrow import orc

from daemon.service.command_line import tideline
from dev.stack.servers.hdfs import Hdfs
from streaming.table.current_files import PATH, CurrentTable
from tests.builders.components.remote_files import open_directory
from tideline import open_dataset


def test_current_files_on_hdfs_are_read_by_path(hdfs: Hdfs, tmp_path: Path) -> None:
    uri = f"{hdfs.uri}/{uuid.uuid4().hex}"
    directory, hour = open_directory(uri), "yyyy_mm_dd=2016-04-18/hh=21"
    for version, numbers in (("v1", pa.array([1], pa.int8())), ("v2", pa.array([1, 2], pa.int16()))):
        content = io.BytesIO()
        orc.write_table(pa.table({"n": numbers}), content)
        directory.write(f"{hour}/{version}/a.orc", content.getvalue())
    keys = (("yyyy_mm_dd", "string"), ("hh", "int"))
    table = CurrentTable((("n", "int"),), keys, {hour: "v2", "yyyy_mm_dd=2016-04-18/hh=22": "v1"})
    directory.write(PATH, table.text.encode())
    rows = open_dataset(uri).to_table().to_pylist()
    assert rows == [{"n": n, "yyyy_mm_dd": "2016-04-18", "hh": 21} for n in (1, 2)]
    config = tmp_path / "tideline.yaml"
    flat = {
        "table": "web.flat",
        "raw_table": "web.raw",
        "location": uri,
        "source": {"kind": "directory", "path": str(tmp_path)},
        "event_time": {"key": "t"},
    }
    config.write_text(json.dumps({"flat": {"web": flat}, "state": {"dir": str(tmp_path)}}))
    listed = CliRunner().invoke(tideline, ["split", "files", "web", "-c", str(config)])
    assert listed.output == f"{uri}/{hour}/v2/a.orc\n"
