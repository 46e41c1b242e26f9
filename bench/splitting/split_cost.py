"""Cases of splitting and querying in one Spark session, and the list of all cases."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.report import Row, row, tree_cpu_s
from bench.splitting import mining
from dev.fixtures.json_events import lines, write
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slots import Layout, Slot, SlotState
from state.columns.sniffing import sniff
from state.columns.types import ColumnType
from streaming.batch.footers import FooterReader
from streaming.driver.session import JAVA_OPTIONS, start
from streaming.settings import SparkSettings
from streaming.split.file_columns import write_files
from streaming.split.splitter import SHORT_LIVED_OPTIONS, row_counts, split_packed


GB: Final = 1e9
RIVAL: Final = "get_json_object per key"
KEYS_30: Final = (
    "epoch",
    "uuid",
    "dc",
    "is_frontend",
    "server",
    "action.name",
    "action.language",
    "action.type",
    "action.stid",
    "action.is_robot",
    "action.wallclock",
    "action.experiment",
    "http.method",
    "http.status",
    "http.path",
    "http.ip",
    "http.user_agent",
    "http.bytes",
    "http.body_parameters",
    "user.id",
    "user.logged_in",
    "user.genius",
    "geo.lat",
    "geo.zip",
    "hotel.price",
    "search.took_ms",
    "search.filters",
    "booking.big",
    "perf.sql.n",
    "usr.id",
)
"""Objects, an array, keys of mixed types, and a misspelled key."""
KEYS_50: Final = (
    *KEYS_30,
    "user.country",
    "user.cookie",
    "geo.lon",
    "geo.cc",
    "geo.city",
    "hotel.id",
    "hotel.class",
    "hotel.currency",
    "hotel.review.score",
    "hotel.review.count",
    "search.id",
    "search.n",
    "search.page",
    "search.results",
    "booking.bn",
    "booking.amount",
    "perf.ttfb",
    "perf.load",
    "perf.memc.ms",
    "http.referer",
)


@dataclass(frozen=True, slots=True)
class Bench:
    """One Spark session and one file of events."""

    spark: Any
    directory: Path
    events: int
    types: Mapping[KeyPath, ColumnType]
    """The types of all keys of the events, the most frequent first."""
    quick: bool

    @property
    def raw(self) -> Path:
        """The file of events."""
        return self.directory / "events.json"

    @property
    def gigabytes(self) -> float:
        """The size of the file."""
        return self.raw.stat().st_size / GB

    def measure_cpu_s(self, call: Callable[[], object], *, warm: int, measured: int = 3) -> float:
        """Return the median processor seconds of a call after warm-up."""
        return self.measure_cpu_and_wall_s(call, warm=warm, measured=measured)[0]

    def measure_cpu_and_wall_s(
        self, call: Callable[[], object], *, warm: int, measured: int = 3
    ) -> tuple[float, float]:
        """Return the medians of processor and wall seconds of a call after warm-up."""
        for _ in range(1 if self.quick else warm):
            call()
        samples = [_measure(call) for _ in range(1 if self.quick else measured)]
        return statistics.median(cpu for cpu, _ in samples), statistics.median(wall for _, wall in samples)


def cases(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        directory = Path(name)
        count = 20_000 if quick else 100_000
        say(f"{count} events")
        write(directory / "events.json", count)
        bench = Bench(open_session(directory), directory, count, infer_types(lines(10_000)), quick)
        try:
            yield from measure_splits(bench)
            yield measure_wide(bench)
            yield from measure_queries(bench)
        finally:
            bench.spark.stop()
    say("mining")
    yield from mining.measure(quick)


def measure_splits(bench: Bench) -> Iterator[Row]:
    thirty = build_layout(choose_types(bench.types, KEYS_30))
    say("30 keys")
    cost = bench.measure_cpu_s(partial(split_once, bench, thirty), warm=12, measured=5)
    say("30 keys by get_json_object")
    rival = bench.measure_cpu_s(partial(extract_each, bench, KEYS_30), warm=1)
    per_gb = 1 / bench.gigabytes
    yield row("split_30_keys", cost * per_gb, "CPU-s/GB", at_most=10, times=10, rival=(RIVAL, rival * per_gb))
    say("300 keys")
    many = build_layout(dict(islice(iterate_leaves(bench.types), 300)))
    assert len(many.live) == 300
    cost = bench.measure_cpu_s(partial(split_once, bench, many), warm=15, measured=5)
    yield row("split_300_keys", cost * per_gb, "CPU-s/GB", at_most=30)


def measure_wide(bench: Bench) -> Row:
    """Measure a table of 1,500 slots, 300 of them with keys and 1,199 whose keys were removed."""
    say("1,500 columns")
    made = build_layout(dict(islice(iterate_leaves(bench.types), 300)))
    for index in range(len(made.slots), 1_500):
        gone = Slot(index, f"gone/{index}", KeyPath(("gone", str(index))), ColumnType.BIGINT)
        made = made.with_slot(replace(gone, state=SlotState.EMPTY))
    made.check()
    cost = bench.measure_cpu_s(partial(split_once, bench, made), warm=2)
    return row("split_300_keys_in_1500_columns", cost / bench.gigabytes, "CPU-s/GB")


def measure_queries(bench: Bench) -> Iterator[Row]:
    copies = 3 if bench.quick else 12
    say(f"the query on {bench.gigabytes * copies:.2g} GB")
    raw_bytes = make_raw(bench, copies)
    flat_bytes = make_flat(bench, build_layout(choose_types(bench.types, KEYS_50)), copies)
    raw = build_query("raw", "'1'", "get_json_object(json, '$.{}')".format)
    flat = build_query("flat", "1", lambda key: f"`{key.replace('.', '/')}`")
    assert compute_digest(bench.spark, raw) == compute_digest(bench.spark, flat), (
        "the raw and the flat table return different rows"
    )
    slow_cpu_s, slow_wall_s = bench.measure_cpu_and_wall_s(partial(run_query, bench.spark, raw), warm=2)
    fast_cpu_s, fast_wall_s = bench.measure_cpu_and_wall_s(
        partial(run_query, bench.spark, flat), warm=3, measured=5
    )
    yield row("query_cpu", fast_cpu_s, "s", times=20, rival=("raw table", slow_cpu_s))
    yield row("query_wall", fast_wall_s, "s", times=20, rival=("raw table", slow_wall_s))
    yield row("size", flat_bytes / raw_bytes, "of raw table", at_most=0.3)


def open_session(directory: Path) -> Any:
    """Open a session like the product, with support for Hive tables, which the raw table needs."""
    return start(
        SparkSettings(
            driver_memory="2g",
            conf={
                "spark.sql.files.maxPartitionBytes": "41943040",
                "spark.sql.catalogImplementation": "hive",
                "spark.sql.warehouse.dir": str(directory / "warehouse"),
                "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:bench;create=true",
                "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
                "spark.hadoop.hive.metastore.schema.verification": "false",
                "spark.driver.extraJavaOptions": (
                    f"{JAVA_OPTIONS} -Dderby.stream.error.file={directory}/derby.log"
                ),
                "spark.ui.showConsoleProgress": "false",
            },
        )
    )


def infer_types(texts: Iterable[str]) -> dict[KeyPath, ColumnType]:
    """Return all keys of the texts with their types by the default rules, the most frequent key first."""
    rules = FlatRules()
    seen = sniff(texts, rules).keys
    ordered = sorted(seen, key=lambda key: (-seen[key].nonnull, key))
    return {key: rules.type_of(key, seen[key].evidence) for key in ordered}


def iterate_leaves(types: Mapping[KeyPath, ColumnType]) -> Iterator[tuple[KeyPath, ColumnType]]:
    """Return the keys that contain no other key."""
    inner = {key.members[:depth] for key in types for depth in range(1, key.depth)}
    return ((key, column_type) for key, column_type in types.items() if key.members not in inner)


def choose_types(types: Mapping[KeyPath, ColumnType], dotted: Sequence[str]) -> dict[KeyPath, ColumnType]:
    keys = [KeyPath(tuple(text.split("."))) for text in dotted]
    return {key: types.get(key, ColumnType.STRING) for key in keys}


def build_layout(types: Mapping[KeyPath, ColumnType]) -> Layout:
    made = Layout.new()
    for index, (key, column_type) in enumerate(types.items(), 1):
        made = made.with_slot(Slot(index, "/".join(key.members).lower(), key, column_type))
    made.check()
    return made


def split_once(
    bench: Bench, into: Layout, out: str = "out", options: Mapping[str, str] = SHORT_LIVED_OPTIONS
) -> None:
    """Split the events into ORC files like a batch, and read the footers of the files."""
    from pyspark.sql import Observation

    observation = Observation()
    rows = split_packed(bench.spark.read.text(str(bench.raw)), into).observe(observation, *row_counts())
    directory = bench.directory / out
    write_files(rows, into, str(directory), options={"compression": "zstd", **options})
    footer = FooterReader(bench.spark).read_all(map(str, sorted(directory.glob("*.orc"))))
    assert observation.get["rows"] == footer.rows == bench.events
    assert observation.get["malformed"] == 0


def extract_each(bench: Bench, dotted: Sequence[str]) -> None:
    values = [f"get_json_object(value, '$.{key}') AS c{number}" for number, key in enumerate(dotted)]
    discard(bench.spark.read.text(str(bench.raw)).selectExpr(*values))


def make_raw(bench: Bench, copies: int) -> int:
    """Create the raw table with ``copies`` copies of the events, and return its size in bytes."""
    bench.spark.read.text(str(bench.raw)).createOrReplaceTempView("events")
    for statement in (
        "CREATE TABLE raw (json STRING) STORED AS RCFILE",
        "SET hive.exec.compress.output=true",
        "SET mapreduce.output.fileoutputformat.compress=true",
        "SET mapreduce.output.fileoutputformat.compress.codec=org.apache.hadoop.io.compress.SnappyCodec",
        "SET mapreduce.output.fileoutputformat.compress.type=BLOCK",
        "INSERT OVERWRITE TABLE raw SELECT value FROM events",
    ):
        bench.spark.sql(statement)
    size_bytes = copy_files(bench.directory / "warehouse" / "raw", copies)
    bench.spark.catalog.refreshTable("raw")
    return size_bytes


def make_flat(bench: Bench, into: Layout, copies: int) -> int:
    """Create the flat table with ``copies`` copies of the events, in the form of sealed hours, and return its
    size in bytes.
    """
    split_once(bench, into, "flat", options={})
    size_bytes = copy_files(bench.directory / "flat", copies)
    bench.spark.read.orc(str(bench.directory / "flat")).createOrReplaceTempView("flat")
    return size_bytes


def copy_files(directory: Path, copies: int) -> int:
    """Copy every data file, so that the table has ``copies`` of each; return the total size in bytes."""
    for file in sorted(directory.glob("part-*")):
        for number in range(1, copies):
            shutil.copy(file, file.with_name(file.name.replace("part-", f"part-c{number}-")))
    return sum(file.stat().st_size for file in directory.glob("part-*"))


def build_query(table: str, one: str, spell: Callable[[str], str]) -> str:
    """Return the query of the article; ``spell`` returns the expression for a key."""
    selected = {"e": "epoch", "b": "http.body_parameters", "x": "action.experiment", "l": "action.language"}
    columns = ", ".join(f"{spell(key)} AS {name}" for name, key in selected.items())
    filtered = f"{spell('action.name')} = 'explorer' AND {spell('is_frontend')} = {one}"
    return f"SELECT {columns} FROM {table} WHERE {filtered}"  # noqa: S608 (fixed names)


def compute_digest(spark: Any, query: str) -> tuple[object, ...]:
    text = "coalesce(CAST({} AS STRING), '')"
    content = ", ".join(text.format(name) for name in ("e", "b", "x", "l"))
    return tuple(spark.sql(query).selectExpr("count(*)", f"sum(hash({content}))").first())


def run_query(spark: Any, query: str) -> None:
    discard(spark.sql(query))


def discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _measure(call: Callable[[], object]) -> tuple[float, float]:
    cpu_s, wall_s = tree_cpu_s(), time.perf_counter()
    call()
    return tree_cpu_s() - cpu_s, time.perf_counter() - wall_s


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
