"""Python programs: PySpark's functions on columns, and the queries in their strings."""

from __future__ import annotations

import pytest

from streaming.mining.miner import Miner
from streaming.mining.model import Form, Parser
from tests.builders.keylog.mining import RULES, mined, named, query, reasons


PROGRAMS = [
    (
        (
            "from pyspark.sql.functions import "
            '*\nspark.read.table("raw_events").select(get_json_object(col("json"),"$.a").alias("a")).groupBy("a").count()'
        ),
        ["$.a"],
    ),
    (
        (
            'def f(df):\n    return df.withColumn("a", F.get_json_object(F.col("json"), '
            '"$.a"))\nf(spark.table("raw_events"))'
        ),
        ["$.a"],
    ),
    (
        (
            'KEYS = {"x": "$.a", "y": "$.b"}\ndf = spark.table("raw_events")\nfor n, p in '
            "KEYS.items():\n    df "
            '= df.withColumn(n, F.get_json_object("json", p))'
        ),
        ["path-not-literal"],
    ),
    ('TABLE = "raw_events"\nspark.table(TABLE).select(F.get_json_object("json", "$.a"))', ["$.a"]),
    ('spark.table(f"{db}.raw_events").select(F.get_json_object("json", "$.a"))', ["$.a"]),
    (
        (
            'df = spark.readStream.table("raw_events")\ndf.select(F.from_json(F.col("json"), "a '
            'int").alias("j")).select("j.*")'
        ),
        ["$.a"],
    ),
    (
        (
            'df = spark.table("raw_events")\ndf.select(*[F.get_json_object("json", f"$.{k}").alias(k) for k '
            "in ks])"
        ),
        ["variable"],
    ),
    (
        (
            'df = spark.table("raw_events")\ndf.select(F.get_json_object(df["json"], "$.a"), '
            'F.get_json_object(df.other, "$.b"))'
        ),
        ["$.a"],
    ),
    ('df = spark.table("raw_events")\ndf.rdd.map(lambda r: json.loads(r.json)["a"])', ["whole-document"]),
    ('q = """\nselect get_json_object(json, \'$.%(key)s\') from raw_events\n""" % {"key": k}', ["variable"]),
    (
        "q = Template(\"select get_json_object(json, '$.$key') from raw_events\").substitute(key=k)",
        ["variable"],
    ),
    (
        (
            'df = spark.table("default.raw_events")\nx = df.select(F.get_json_object("json", "$.a"), '
            'F.get_json_object(F.col("json"), "$.b.c"), get_json_object(col("json"), \'$.d\'))'
        ),
        ["$.a", "$.b.c", "$.d"],
    ),
    (
        (
            'df = spark.table("raw_events").withColumn("n", F.get_json_object(df.json, '
            '"$.a")).select(F.json_tuple(df["json"], "x", "y"))'
        ),
        ["$.a", "$.x", "$.y"],
    ),
    ("spark.sql(f\"select get_json_object(json, '$.{key}') from raw_events\")", ["variable"]),
    ('spark.sql("""select get_json_object(json, \'$.%s\') from raw_events""" % key)', ["variable"]),
    ("spark.sql(\"select get_json_object(json, '$.{}') from raw_events\".format(k))", ["variable"]),
    ('spark.sql("""\nselect get_json_object(json, \'$.a\')\nfrom raw_events""")', ["$.a"]),
    ('df=spark.table("default.raw_events")\ndf.select(F.get_json_object("json","$.a"))', ["$.a"]),
    (
        (
            "from pyspark.sql import functions as F\nfrom pyspark.sql.functions import "
            'col\ndf=spark.table("default.raw_events")\ndf.select(F.get_json_object(col("json").cast("string"),"$.a").alias("x")).filter(col("x")=="1")'
        ),
        ["$.a"],
    ),
    (
        'd=spark.table("default.raw_events").withColumn("u",F.get_json_object("json","$.user"))\nd.select(F.get_json_object("u","$.id"))',
        ["$.user.id"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("u",F.get_json_object("json","$.user"))\n'
            'd.select("u", F.get_json_object("u","$.id"))'
        ),
        ["$.user", "$.user.id"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("j",F.from_json("json","a int, u '
            'struct<b:int>"))\nd.select("j.a","j.u.b")'
        ),
        ["$.a", "$.u.b"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("j",F.from_json("json","a int, u '
            'struct<b:int>"))\nd.select(F.col("j.a"),F.col("j")["u"]["b"])'
        ),
        ["$.a", "$.u.b"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("j",F.from_json("json","a int, u '
            'struct<b:int>"))\nd.select(d.j.a, d["j"].getField("u").getField("b"))'
        ),
        ["$.a", "$.u.b"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("j",F.from_json("json","a int, u '
            'struct<b:int>"))\nd.select("j.*")'
        ),
        ["$.a", "$.u"],
    ),
    (
        's=StructType([StructField("a",StringType()),StructField("u",StructType([StructField("b",LongType())]))])\nd=spark.table("default.raw_events").select(F.from_json(F.col("json"),s).alias("j")).select("j.u.b")',
        ["$.u.b"],
    ),
    (
        's=StructType().add("a",StringType()).add("b","int")\nd=spark.table("default.raw_events").select(F.from_json("json",s))',
        ["$.a", "$.b"],
    ),
    (
        (
            'd=spark.table("default.raw_events").withColumn("json",F.from_json("json","a int, b '
            'int"))\nd.select("json.a")'
        ),
        ["$.a"],
    ),
    ('spark.table("default.raw_events").select(F.json_tuple("json","a","b").alias("x","y"))', ["$.a", "$.b"]),
    ('spark.table("default.raw_events").select(F.variant_get(F.parse_json("json"),"$.a","int"))', ["$.a"]),
    (
        'spark.table("default.raw_events").selectExpr("get_json_object(json, \'$.a\') as a", "json:b")',
        ["$.a", "$.b"],
    ),
    ('spark.table("default.raw_events").filter("get_json_object(json, \'$.a\') = 1")', ["$.a"]),
    ('spark.table("default.raw_events").withColumn("x",F.expr("get_json_object(json, \'$.a\')"))', ["$.a"]),
    ('p="$.a"\nspark.table("default.raw_events").select(F.get_json_object("json",p))', ["$.a"]),
    (
        'for k in keys:\n  spark.table("default.raw_events").select(F.get_json_object("json",f"$.{k}"))',
        ["variable"],
    ),
    (
        'for k in keys:\n  spark.table("default.raw_events").select(F.get_json_object("json","$."+k))',
        ["variable"],
    ),
    (
        'for k in keys:\n  spark.table("default.raw_events").select(F.get_json_object("json","$.%s" % k))',
        ["variable"],
    ),
    (
        (
            "for k in keys:\n  "
            'spark.table("default.raw_events").select(F.get_json_object("json","$.{}".format(k)))'
        ),
        ["variable"],
    ),
    ('spark.table("default.raw_events").select(F.get_json_object("json",k))', ["path-not-literal"]),
    ('spark.table("default.raw_events").select("json")', ["whole-document"]),
    ('spark.table("default.raw_events").select(F.get_json_object("other","$.no"))', []),
    ('spark.table("other.raw_events").select(F.get_json_object("json","$.a"))', ["unknown-column"]),
    ('spark.table("raw_events").join(spark.table("x")).select(F.get_json_object("e.json","$.a"))', ["$.a"]),
    ('spark.read.orc("/data/raw_events").select(F.get_json_object("json","$.a"))', ["$.a"]),
    (
        'spark.read.format("orc").load("file:///data/raw_events/dt=2024-01-01/").select(F.get_json_object("json","$.a"))',
        ["$.a"],
    ),
    ('spark.sql("select * from raw_events where dt=1").select(F.get_json_object("json","$.a"))', ["$.a"]),
    (
        "db=\"x\"\nspark.sql(f\"select get_json_object(json, '$.a') from {db}.raw_events where dt = '{d}'\")",
        ["$.a"],
    ),
    ('spark.sql("""select get_json_object(json, \'$.a\') from {}.raw_events""".format(db))', ["$.a"]),
    ('spark.sql("select get_json_object(json, \'$.a\') " + "from raw_events")', ["$.a"]),
    ('spark.sql("select " + cols + " , get_json_object(json, \'$.a\') from raw_events")', ["$.a"]),
    ('"""select get_json_object(json, \'$.no\') from raw_events"""\nx=1', []),
    (
        (
            '# MAGIC %sql\n# MAGIC select get_json_object(json, "$.a") from raw_events\n\n# COMMAND '
            "----------\nprint(1)"
        ),
        ["$.a"],
    ),
    ('print "python 2"\nspark.sql("select get_json_object(json, \'$.a\') from raw_events")', ["$.a"]),
    (
        (
            "import pandas as pd\nq = r\"select get_json_object(json, '$.a') from "
            'raw_events"\npd.read_sql(q, '
            "c)"
        ),
        ["$.a"],
    ),
    (
        'df=spark.table("raw_events")\ndf2=df.select(df.json.alias("j"))\ndf2.select(F.get_json_object(df2.j,"$.a"))',
        ["$.a"],
    ),
    (
        'df=spark.table("raw_events").withColumnRenamed("json","j")\ndf.select(F.get_json_object("j","$.a"))',
        ["$.a"],
    ),
    (
        (
            'c=F.col("json")\nspark.table("raw_events").select(F.get_json_object(c,"$.a"), '
            'F.get_json_object(c,"$.b"))'
        ),
        ["$.a", "$.b"],
    ),
    (
        (
            'a=spark.table("raw_events"); '
            'b=spark.table("web.clicks")\na.select(F.get_json_object("json","$.a")); '
            'b.select(F.get_json_object("doc","$.b"))'
        ),
        ["$.a", "web.clicks $.b"],
    ),
    ('spark.table("raw_events").select(event_parser(F.col("json"), F.lit("a.b")))', ["$.a.b"]),
    ('import json\nrow = json.loads(x)\nt = spark.table("raw_events")\njson.dumps(row)', []),
    (
        'spark.table("raw_events").select(F.explode(F.from_json(F.get_json_object("json","$.items"),"array<struct<id:int>>")).alias("i")).select("i.id")',
        ["$.items"],
    ),
]


def keys_and_reasons(text: str, form: Form = Form.PYTHON) -> list[str]:
    found = mined(text, form=form)
    return sorted([*named(found), *reasons(found)])


@pytest.mark.parametrize(("text", "expected"), PROGRAMS)
def test_a_program_requests_the_keys_that_it_extracts_from_a_raw_column(
    text: str, expected: list[str]
) -> None:
    assert keys_and_reasons(text) == sorted(expected)


def test_a_program_is_recognized_among_statements() -> None:
    program = (
        "from pyspark.sql import functions as "
        'F\nspark.table("raw_events").select(F.get_json_object("json", "$.a"))'
    )
    assert mined(program).parser is Parser.PYTHON
    statement = "set spark.sql.shuffle.partitions=10; select get_json_object(json, '$.a') from raw_events"
    assert mined(statement).parser is Parser.HIVE


def test_programs_that_read_other_tables_are_not_taken_for_each_other() -> None:
    text = 'spark.table("{}").select(F.get_json_object("json", "$.a"))'
    miner = Miner(RULES)
    assert miner.mine(query(text.format("raw_events")))[1].keys
    assert not miner.mine(query(text.format("other.raw_events")))[1].keys


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "spark.table('raw_events')" + ".select('json')" * 20_000,
        "x = " + " + ".join(["'raw_events json'"] * 5_000),
        "\n".join(f"c{n} = c{n + 1}" for n in range(2_000))
        + "\nspark.table('raw_events').select(F.get_json_object(c0, '$.a'))",
        "a = b\nb = a\nspark.table('raw_events').select(F.get_json_object(a, '$.a'))",
        (
            "spark.table('raw_events').withColumn('a', F.get_json_object('b', '$.x')).withColumn('b', "
            "F.get_json_object('a', '$.y'))"
        ),
        "spark.table('raw_events')\nx = F.from_json('json', s)\ns = s.add('a', s)",
        "\x00import raw_events json",
    ],
)
def test_a_hostile_program_has_an_answer(text: str) -> None:
    assert named(mined(text, form=Form.PYTHON)) in ([], ["$.a"], ["$.x"], ["$.y"])
