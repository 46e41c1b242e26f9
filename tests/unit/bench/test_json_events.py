from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path

from dev.fixtures.json_events import CONFLICTS, EPOCH_S, HOUR_S, lines, write
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.sniffing import sniff
from state.columns.types import ColumnType


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    sizes = [write(tmp_path / name, 300, seed=5) for name in ("one", "two")]
    one, two = ((tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two
    assert sizes == [len(one), len(two)]
    assert (
        hashlib.sha256(one).hexdigest() != hashlib.sha256("\n".join(lines(300, seed=6)).encode()).hexdigest()
    )


def test_events_have_the_documented_size_and_hour() -> None:
    texts = list(lines(500))
    assert 1_200 < sum(map(len, texts)) / len(texts) < 2_000
    epochs = [json.loads(text)["epoch"] for text in texts]
    assert epochs == sorted(epochs)
    assert EPOCH_S <= epochs[0] <= epochs[-1] < EPOCH_S + HOUR_S


def test_the_keys_in_conflict_are_text_columns() -> None:
    rules = FlatRules()
    seen = sniff(lines(5_000), rules).keys
    for members in CONFLICTS:
        key = KeyPath(members)
        assert rules.type_of(key, seen[key].evidence) is ColumnType.STRING, key


def test_a_few_thousand_events_contain_hundreds_of_keys() -> None:
    assert len(sniff(islice(lines(5_000), 3_000), FlatRules()).keys) > 300
