"""Cases of memory: records, requests and query texts that are crafted to need as much as possible.

Each input is read in its own process, which reports its peak resident memory and that of its children. Four
threads decode records at the same time, like the projections of a daemon.
"""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bench.events.environment import say
from bench.report import Row, row
from daemon.catalog.branch import OpenSource
from daemon.catalog.queries import query_routes
from daemon.consumer.record_decoder import RecordDecoder
from daemon.consumer.settings import ConsumerSettings
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.server import EndpointServer
from daemon.endpoint.settings import EndpointSettings
from daemon.http.transport.server import HttpServer, bind
from daemon.kafka.broker import TopicRecord
from daemon.timelines.answers import TimelineAnswers, TimelinesView
from daemon.timelines.queries import QUERIES
from dev.fixtures.notifications import compress, notification
from handlers.decoding.records.encoder import encode
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.addresses import Address
from state.errors import BadInput
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings
from streaming.mining.miner import Question
from streaming.mining.model import Form, MiningRules, RawTable
from streaming.mining.sources.directory import Directory
from streaming.mining.sources.spark_event_log import SparkEventLogSource
from streaming.mining.text_worker import TextWorker


MEMORY_MAX_MB: Final = 400
ROOT: Final = Path(__file__).parents[2]
THREADS: Final = 4
VALUES: Final = 5_000_000


def cases(quick: bool) -> Iterator[Row]:  # noqa: ARG001 - each input is as large as it may be
    for name in CASES:
        say(f"memory: {name}")
        command = [sys.executable, "-m", "bench.hostile.memory", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
        yield row(f"memory_{name}", float(done.stdout.split()[-1]), "MB", at_most=MEMORY_MAX_MB)


class _NoLetters:
    def put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        """Discard the value."""


def decode_message(text: str | bytes, kind: str = "ALTER_TABLE") -> None:
    """Decode records whose message is this text in the metastore's compression."""
    event = notification(kind)
    event.message = compress(text)
    (record,) = encode("s", event, None, record_bytes_max=16 << 20)
    decode_value(record.value)


def decode_value(value: bytes) -> None:
    """Decode the same record in several threads at once."""
    decoder = RecordDecoder(ConsumerSettings(group="bench", format="auto"), _NoLetters())
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(decoder.decode, TopicRecord(1, value)) for _ in range(2 * THREADS)]:
            done.result()


def decode_files() -> None:
    """Decode an insert of a million files."""
    event = notification("INSERT", files=["u###"] * 1_000_000)
    decode_value(orjson.dumps(event.set_fields()))


def decode_embedded() -> None:
    """Decode a table whose embedded object has very many columns."""
    event = notification("CREATE_TABLE", tableObjJson='{"7":{"rec":{"1":[' + "{}," * VALUES + "{}]}}}")
    (record,) = encode("s", event, None, record_bytes_max=16 << 20)
    decode_value(record.value)


def read_text(text: str) -> None:
    """Read a query text like the miner."""
    worker = TextWorker(RULES)
    worker.read_all([Question(text, Form.SQL, None)])
    worker.close()


def read_event_log(line: str, lines: int) -> None:
    """Read an event log of Spark in zstd, whose lines are equal."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        with pa.CompressedOutputStream(str(Path(directory, "app-1.zstd")), "zstd") as log:
            for _ in range(lines):
                log.write(line.encode() + b"\n")
        source = SparkEventLogSource("bench", Directory.open(directory, open_file_systems()))
        for batch in source.batches(None):
            del batch


def send_unfinished(clients: int, request: bytes, size_bytes: int) -> None:
    """Let many clients send requests of ``size_bytes`` to a metastore endpoint without finishing them."""
    filler = b"x" * (1 << 20)
    with ExitStack() as stack:
        metastore = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = Address("127.0.0.1", metastore.getsockname()[1])
        settings = EndpointSettings(metastores=(address,), port=0, drain_s=0)
        server = EndpointServer(settings, EndpointMetrics(CollectorRegistry()))
        server.start()
        stack.callback(server.close)
        for number in range(clients):
            source = (f"127.0.1.{number % 20 + 1}", 0)
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10, source))
            with suppress(OSError):  # the server gave up this request in favour of others
                client.sendall(request)
                for _ in range(size_bytes // len(filler)):
                    client.sendall(filler)
                client.sendall(filler[: size_bytes % len(filler) - 1])


def cover_minutes(clients: int) -> None:
    """Let several clients at once request a cover of a year in which every other minute exists, which has
    250,000 runs.
    """
    timelines, store = Timelines(), MemoryStore()
    start = UpdatePeriod.MINUTELY.parse("2020-01-01-00-00")
    with store.transaction() as txn:
        change = timelines.change(txn)
        change.follow("bench.minutes", TableSettings(("dt",), ("dt",)))
        for minute in range(0, 500_000, 2):
            change.add("bench.minutes", {"dt": UpdatePeriod.MINUTELY.format(start + minute)})
    change.publish()
    view = TimelinesView(event_id=1, waiting={}, quarantined={}, timelines=timelines)
    answers = TimelineAnswers([OpenSource("bench", lambda: view)], {"bench": 1}.get)
    app = Starlette(routes=list(query_routes(QUERIES, answers, reads_store=False)))
    server = HttpServer(app, bind("127.0.0.1", 0))
    server.start()
    query = "/api/v1/timelines/bench.minutes/cover?from=2020-01-01&to=2021-01-01&where=or"

    def ask(number: int) -> None:
        source = (f"127.0.1.{number + 1}", 0)
        with socket.create_connection(("127.0.0.1", server.port), 60, source) as client:
            client.sendall(f"GET {query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            while client.recv(1 << 16):
                pass

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    server.close()


RULES: Final = MiningRules((RawTable("bench.raw_events", "json"),))
COMMON_TABLES: Final = "".join(
    [
        "with a0 as (select json from bench.raw_events)",
        # S608: a text that is only parsed
        *(f", a{n} as (select json from a{n - 1} union all select json from a{n - 1})" for n in range(1, 60)),  # noqa: S608
        " select get_json_object(json, '$.a') from a59",
    ]
)
COLONS: Final = "select json:" + "a.b:" * 30_000 + "c from bench.raw_events"
PARENTHESES: Final = "select " + "(" * 100_000 + "json" + ")" * 100_000 + " from bench.raw_events"
EVENT: Final = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":0,'
MB: Final = 1 << 20
CALL: Final = struct.pack(">II9sI3sI", 0x80010001, 9, b"get_table", 1, b"\x0b\x00\x01", 40 * MB)
SASL: Final = b"\x01" + struct.pack(">I", 5) + b"PLAIN" + b"\x02" + struct.pack(">I", MB)
CASES: Final[dict[str, Callable[[], None]]] = {
    "record_values": lambda: decode_message(b"[" + b"[]," * VALUES + b"[]]"),
    "record_spaces": lambda: decode_message(b" " * 80_000_000),
    "record_lenient": lambda: decode_message('{"a":"\x01","b":[' + "[]," * (VALUES // 2) + "[]]}"),
    "record_strings": lambda: decode_message('{"a":["' + '","' * VALUES + '"]}'),
    "record_keys": lambda: decode_message("{" + ",".join(f'"{n}":0' for n in range(VALUES // 2)) + "}"),
    "record_embedded": decode_embedded,
    "record_files": decode_files,
    "request_unfinished": lambda: send_unfinished(40, CALL, 40 * MB),
    "request_sasl": lambda: send_unfinished(400, SASL, MB),
    "text_common_tables": lambda: read_text(COMMON_TABLES),
    "text_colons": lambda: read_text(COLONS),
    "text_parentheses": lambda: read_text(PARENTHESES),
    "request_covers": lambda: cover_minutes(64),
    "event_log": lambda: read_event_log("x" * 1_000_000, 80),
    "event_log_line": lambda: read_event_log("x" * 31_000_000, 10),
    "event_log_values": lambda: read_event_log(EVENT + '"x":[' + "[]," * (VALUES * 2) + "[]]}", 1),
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    used = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(max(used) * 1024 / 1e6)
