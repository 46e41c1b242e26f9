"""What a first try finds out from a sample of events: the time key, and the keys that are worth a column."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.flat.trial.first_try import TrialOrder, run_trial
from daemon.flat.trial.sample import (
    COLUMNS_MAX,
    TimeKey,
    choose_keys,
    find_time_key,
    read_sample,
    separate_documents,
)
from state.columns.paths import KeyPath
from state.errors import BadInput, ConfigError
from streaming.settings import EpochUnit


S = 1_461_013_200


def lines(*rows: dict[str, Any]) -> list[str]:
    return [json.dumps(row) for row in rows]


@pytest.mark.parametrize(
    ("row", "key", "unit"),
    [
        ({"epoch": S, "user": 1_234_567_890}, "epoch", EpochUnit.SECONDS),
        ({"a": 1_234_567_890, "meta": {"created_at": S + 0.5}}, "meta.created_at", EpochUnit.SECONDS),
        ({"ts": S * 1_000}, "ts", EpochUnit.MILLISECONDS),
        ({"ts": str(S)}, "ts", EpochUnit.SECONDS),
        ({"eventTime": "2016-04-18T21:00:00.123Z", "n": 7}, "eventTime", EpochUnit.ISO),
        ({"day": "2016-04-18"}, "day", EpochUnit.ISO),
        ({"odd name": S}, "odd name", EpochUnit.SECONDS),
        ({"id": S * 10**9, "ts_us": S * 10**6}, "ts_us", EpochUnit.MICROSECONDS),
        ({"__REALTIME_TIMESTAMP": str(S * 10**6)}, "__REALTIME_TIMESTAMP", EpochUnit.MICROSECONDS),
        ({"timeUnixNano": str(S * 10**9)}, "timeUnixNano", EpochUnit.NANOSECONDS),
        ({"at": "2016-04-18T21:00Z"}, "at", EpochUnit.ISO),
        ({"at": "2016-04-18t21:00:00,5z"}, "at", EpochUnit.ISO),
    ],
)
def test_the_time_key_is_recognized_by_its_values_then_by_its_name(
    row: dict[str, Any], key: str, unit: EpochUnit
) -> None:
    assert find_time_key(lines(row, row)) == TimeKey(KeyPath.of_dotted(key), unit)


def test_a_key_that_only_some_rows_have_is_not_the_time() -> None:
    rows = [{"time": S, "seen": S}, {"seen": S}, {"seen": S}]
    assert find_time_key(lines(*rows)).key == KeyPath(("seen",))


@pytest.mark.parametrize(
    "row",
    [{"n": 7}, {"n": True}, {"n": "2016"}, {"n": "12:30"}, {"n": "2016-04-18T21"}, {"n": [S]}, {"n": None}],
)
def test_without_a_time_the_error_says_how_to_name_one(row: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="no key of the events is a time") as caught:
        find_time_key(lines(row))
    assert "--time" in caught.value.hint
    with pytest.raises(BadInput, match="not times"):
        find_time_key(lines(row), KeyPath(("n",)))


def test_an_id_as_large_as_a_time_in_nanoseconds_is_not_a_time_unless_it_is_named() -> None:
    rows = lines({"id": S * 10**9})
    with pytest.raises(BadInput):
        find_time_key(rows)
    assert find_time_key(rows, KeyPath(("id",))).unit is EpochUnit.NANOSECONDS


def test_a_named_time_key_may_be_missing_in_some_rows() -> None:
    rows = lines({"seen": S, "sent": S * 1_000}, {"seen": S})
    assert find_time_key(rows, KeyPath(("sent",))) == TimeKey(KeyPath(("sent",)), EpochUnit.MILLISECONDS)


def test_without_queries_the_most_filled_leaves_become_columns_and_generated_names_collapse() -> None:
    rows = [
        {
            "uuid": str(n),
            "user": {"id": n},
            "tests": {f"exp_{n % 9}": 1},
            **{f"key{chr(97 + k // 26)}{chr(97 + k % 26)}": n for k in range(2 * COLUMNS_MAX)},
        }
        for n in range(20)
    ]
    rows[0]["rare"] = 1
    demand = choose_keys(lines(*rows))
    keys = {each.key for each in demand.selected}
    assert len(keys) == COLUMNS_MAX
    assert KeyPath(("rare",)) not in keys
    assert "have a higher rank" in demand.decisions[KeyPath(("rare",))].reason
    few = choose_keys(lines(*({name: row[name] for name in ("uuid", "user", "tests")} for row in rows)))
    assert sorted(each.key.text for each in few.selected) == ["$.tests", "$.user.id", "$.uuid"]


def test_a_sample_takes_lines_of_every_file_also_of_compressed_ones(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n".join(lines(*({"a": n} for n in range(3_000)))))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'\n{"b": 1}\nno json\n'))
    (tmp_path / "c.json.bz2").write_bytes(bz2.compress(b'{"c": 1}\n'))
    sample = read_sample([tmp_path / name for name in ("a.json", "b.json.gz", "c.json.bz2")])
    assert (len(sample), sample[-3:]) == (669, ['{"b": 1}', "no json", '{"c": 1}'])


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_sample_of_a_file_does_not_have_its_byte_order_mark(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / ("a.json" if compress is bytes else "a.json.gz")
    path.write_bytes(compress(BOM_UTF8 + b'{"a": 1}\n{"a": 2}\n'))
    assert read_sample([path]) == ['{"a": 1}', '{"a": 2}']


def test_lines_with_several_documents_are_separated() -> None:
    texts = [
        '{"a": 1}{"a": "}{"}',
        '{"a": 3} , {"a": 4}',
        '{"a": 5},',
        "no json",
        '{"a": 6} no json',
        '{"a": 7}{"a"',
    ]
    assert separate_documents(texts) == [
        '{"a": 1}',
        '{"a": "}{"}',
        '{"a": 3}',
        '{"a": 4}',
        '{"a": 5},',
        "no json",
        '{"a": 6}',
        "no json",
        '{"a": 7}',
        '{"a"',
    ]


@pytest.mark.parametrize("content", ['[{"a": 1}]', '{\n  "a": 1\n}'])
def test_a_file_of_another_form_is_refused_with_the_way_to_convert_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(BadInput, match="one JSON object per line") as caught:
        read_sample([tmp_path / "a.json"])
    assert "jq -c" in caught.value.hint
    (tmp_path / "empty").touch()
    with pytest.raises(BadInput, match="no line"):
        read_sample([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.json.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-9]),
        ("torn.json.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:12] + b"\0" * 30),
        ("plain.gz", b'{"a": 1}\n'),
        ("plain.bz2", b'{"a": 1}\n'),
        ("cut.bz2", bz2.compress(b'{"a": 1}\n')[:-9]),
    ],
)
def test_a_damaged_file_is_named_with_the_reason(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BadInput, match="a file cannot be read") as caught:
        read_sample([file])
    assert str(file) in str(caught.value)


def test_a_pipe_is_refused_because_spark_reads_it_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="regular file"):
        read_sample([tmp_path / "pipe"])


def test_without_a_program_that_spark_needs_nothing_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    events = tmp_path / "events.json"
    events.write_text(f'{{"epoch":{S}}}\n')
    order = TrialOrder(files=(events,), queries=(), time=None, directory=tmp_path / "try")
    with pytest.raises(ConfigError, match="PATH does not contain"):
        run_trial(order, lambda _: None)
    assert not (tmp_path / "try").exists()
