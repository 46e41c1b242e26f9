"""Settings of a flat table's stream that needs nothing but a disk."""

from __future__ import annotations

from state.columns.paths import KeyPath
from streaming.settings import DirectorySource, EventTime, FlatSettings


SETTINGS = FlatSettings(
    database="flat",
    table="events",
    location="/warehouse/flat/events",
    checkpoint="/checkpoints/events",
    source=DirectorySource("/landing"),
    event_time=EventTime(KeyPath(("epoch",))),
)
