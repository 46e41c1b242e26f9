"""Marks of accurate statistics that Hive 4 must not trust."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.metastore.calls import V3_1, V4_2, HiveVersion
from handlers.replication.effects.accuracy_marks import remove_unreliable
from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import FieldSchema, Table
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table, allocated, changed, created


MARKED = {"transactional": "true", "numRows": "1", ACCURATE: '{"BASIC_STATS":"true"}'}


@pytest.mark.parametrize(
    ("version", "write_id", "transactional", "is_removed"),
    [
        (V3_1, None, "true", True),
        (V3_1, 0, "true", True),
        (V3_1, 4, "true", False),
        (V3_1, None, "false", False),
        (V4_2, None, "true", False),
    ],
)
def test_a_mark_of_hive_3_1_is_removed_unless_it_belongs_to_a_write(
    version: HiveVersion, write_id: int | None, transactional: str, *, is_removed: bool
) -> None:
    source: Any = RecordingMetastore(hive_version=version)
    table = a_table(parameters={**MARKED, "transactional": transactional}, writeId=write_id)
    remove_unreliable([table], table, source)
    assert (ACCURATE not in (table.parameters or {})) == is_removed


def test_tables_of_hive_3_1_have_no_mark_after_their_creation_and_any_change(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(replica.target), "hive_version", V3_1)
    before, after = marked(), marked()
    after.sd.cols = [*(after.sd.cols or []), FieldSchema(name="more", type="int")]
    replica.projection.apply([created(2, parameters=MARKED)])
    assert ACCURATE not in (replica.target.tables["orders"].parameters or {})
    replica.projection.apply([allocated(3, 1, 1), changed(4, before, after)])
    table = replica.target.tables["orders"]
    assert (table.parameters or {}) == {"transactional": "true", "numRows": "1"}
    assert len(table.sd.cols or []) == 2


def marked() -> Table:
    return a_table(parameters=MARKED)
