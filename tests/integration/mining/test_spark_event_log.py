"""The event log of a real Spark session: its plans contain all requested keys.

The session runs in a process of its own: a JVM lives as long as its Python, and other tests have sessions
with other settings.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handlers.files.systems.schemes import open_file_systems
from streaming.mining.miner import Miner, MiningReport, mine
from streaming.mining.model import MiningRules, Parser, RawTable
from streaming.mining.sources.directory import Directory
from streaming.mining.sources.spark_event_log import SparkEventLogSource
from tests.builders.keylog.mining import MemorySink


PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F

home = sys.argv[1]
settings = {
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{home}/log",
    "spark.eventLog.compress": "true",
    "spark.eventLog.rolling.enabled": "true", "spark.sql.warehouse.dir": f"{home}/warehouse",
}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
events = spark.range(5).select(F.to_json(F.struct(F.col("id").alias("a"))).alias("json"), "id")
events.write.format("orc").saveAsTable("raw_events")
for text in (
    "select get_json_object(json, '$.grouped.b') x, count(*) from raw_events "
    "where get_json_object(json, '$.filtered') = 1 group by 1",
    "with c as (select get_json_object(json, '$.user') u from raw_events) "
    "select get_json_object(u, '$.id') from c",
    "select t1, t2 from raw_events lateral view json_tuple(json, 't1', 't2') t as t1, t2",
    "select from_json(json, 'a int, s struct<b:int>').s.b from raw_events",
    "select variant_get(parse_json(json), '$.v.b', 'int') from raw_events",
    "select get_json_object(e.json, '$.j') from raw_events e join raw_events f "
    "on get_json_object(e.json, '$.left') = get_json_object(f.json, '$.right') where f.id > 1",
):
    spark.sql(text).collect()
raw = spark.table("raw_events")
raw.select(F.from_json("json", "p int, q string").alias("j")).select("j.q", "j.p").collect()
raw.select(F.get_json_object("json", "$['x.y']")).collect()
spark.read.orc(f"{home}/warehouse/raw_events").select(F.get_json_object("json", "$.files")).collect()
spark.stop()
"""
KEYS = {
    "$.grouped.b", "$.filtered", "$.user.id", "$.t1", "$.t2", "$.s.b", "$.v.b", "$.j", "$.left", "$.right",
    "$.p", "$.q", "$['x.y']", "$.files",
}  # fmt: skip


def run(home: Path, sink: MemorySink) -> MiningReport:
    raw = RawTable("default.raw_events", "json", location=f"{home}/warehouse/raw_events")
    source = SparkEventLogSource("spark", Directory.open(f"{home}/log", open_file_systems()))
    return mine(source, Miner(MiningRules((raw,))), sink)


@pytest.mark.long
def test_the_plans_of_a_spark_session_contain_every_key(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, cwd=tmp_path, capture_output=True
    )
    sink = MemorySink()
    report = run(tmp_path, sink)
    assert set(sink.keys()) == KEYS
    assert (report.unresolved, report.dead) == ({}, {})
    assert set(report.parsers) <= {Parser.PLAN, Parser.NONE}
    assert all(each.user for each in sink.requests)
    assert run(tmp_path, sink).queries == 0
