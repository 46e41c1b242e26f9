from __future__ import annotations

from dataclasses import replace

import pytest

from state.columns.paths import KeyPath
from state.errors import ConfigError
from streaming.settings import EventTime, PartitionColumn, Publishing
from tests.builders.flat.streams import SETTINGS


def test_the_defaults_are_valid() -> None:
    SETTINGS.check()
    assert SETTINGS.name == "flat.events"
    assert SETTINGS.dead_letter_directory == "/warehouse/flat/events/.dead-letters"


@pytest.mark.parametrize(
    ("location", "publishing"),
    [
        ("/warehouse/t", Publishing.RENAME),
        ("file:/warehouse/t", Publishing.RENAME),
        ("hdfs://nn/t", Publishing.RENAME),
        ("s3a://bucket/t", Publishing.MANIFEST),
        ("abfss://box@account/t", Publishing.MANIFEST),
    ],
)
def test_files_are_renamed_only_if_renames_are_atomic(location: str, publishing: Publishing) -> None:
    assert replace(SETTINGS, location=location).publishes_by is publishing
    assert (
        replace(SETTINGS, location=location, publishing=Publishing.MANIFEST).publishes_by
        is Publishing.MANIFEST
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"database": "Flat"},
        {"table": "events-web"},
        {"location": "warehouse"},
        {"dead_letters": "s3a://bucket/letters"},
        {"location": "hdfs://nn/t", "dead_letters": "hdfs://other/letters"},
        {"partition_columns": ()},
        {"partition_columns": (PartitionColumn("day", "string", "%Y-%m-%d"),)},
        {"partition_columns": (PartitionColumn("hour", "date", "%Y%m%d%H"),)},
        {"event_time": EventTime(KeyPath(("epoch",)), lateness_s=900, grace_s=0)},
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(SETTINGS, **wrong).check()  # type: ignore[arg-type] # one wrong value at a time
