"""A flat table's stream for tests: a landing directory or a topic, its settings, and a naive reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from streaming.driver.assembly import Assembly, assemble
from streaming.driver.run import Driver
from streaming.settings import DirectorySource, EventTime, FlatSettings, Sealing
from streaming.split.parse_schema import quote
from streaming.upkeep.maintenance import UpkeepResult
from tests.builders.components.remote_files import orc_files


def key(text: str) -> KeyPath:
    """Return the key ``a.b``."""
    return KeyPath.of_dotted(text)


def rules(*keys: str, **changes: Any) -> FlatRules:
    """Rules with these keys on the whitelist. A few misfits promote a column at once, so that a test needs
    few rows."""
    eager = {"misfits_min": 1, "promotion_delay_hours": 0}
    return FlatRules(whitelist=frozenset(map(key, keys)), **(eager | changes))


@dataclass(slots=True)
class Stream:
    """A table with a landing directory as its source, and all events of its driver."""

    settings: FlatSettings
    landing: Path
    events: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def of_directory(
        cls, base: Path, database: str, asked: FlatRules, metastore: str = "", **changes: Any
    ) -> Stream:
        """Settings for a table below ``base`` with ``changes``; a batch is one file."""
        landing = base / "landing"
        landing.mkdir(parents=True, exist_ok=True)
        settings = FlatSettings(
            database=database,
            table="events_flat",
            location=str(base / "table"),
            checkpoint=str(base / "checkpoint"),
            source=DirectorySource(str(landing), files_per_batch=1),
            event_time=EventTime(key("epoch"), lateness_s=0),
            metastores=tuple(filter(None, [metastore])),
            trigger_s=0,
            sealing=Sealing(old_files_s=0),
            rules=asked,
        )
        return cls(replace(settings, **changes), landing)

    def land(self, name: str, rows: Iterable[Mapping[str, Any] | str]) -> None:
        """Move a file of JSON lines into the landing directory."""
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        hidden = self.landing / f".{name}"
        hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogatepass")
        hidden.rename(self.landing / f"{name}.json")

    def parts(self, spark: Any) -> Assembly:
        """Assemble the stream in a running session."""
        for setting in ("spark.sql.caseSensitive", "spark.sql.variable.substitute"):
            spark.conf.set(setting, "true" if setting.endswith("Sensitive") else "false")
        return assemble(self.settings, spark)

    def run(self, spark: Any) -> Sequence[Mapping[str, Any]]:
        """Bring all files of the landing directory into the table; return the progress events of the
        batches."""
        told: list[Mapping[str, Any]] = []
        Driver(self.parts(spark), told.append).run(once=True)
        self.events += told
        return [event for event in told if event["event"] == "progress"]

    def upkeep(self, spark: Any) -> UpkeepResult:
        """Do all maintenance that is due."""
        return self.parts(spark).maintenance.run(everything=True)

    def rows(self, spark: Any) -> list[dict[str, Any]]:
        """All rows of the table's partitions, read by Spark's reader from their locations, with values as
        text."""
        parts = self.parts(spark)
        table = parts.stream.table
        layout = table.read().layout
        found: list[dict[str, Any]] = []
        for partition in table.partitions():
            files = parts.stream.sampler.list_files(str(partition.location))
            if not files:
                continue
            names = [quote(slot.name) for slot in layout.slots]
            texts = [f"CAST({name} AS STRING) AS {name}" for name in names]
            rows = parts.sealer.rewriter.read(files, layout).selectExpr(*texts).collect()
            found += [row.asDict() | {"hour": partition.hour} for row in rows]
        return found

    def letters(self) -> dict[str, int]:
        """Number of dead letters by reason."""
        found: Counter[str] = Counter()
        for name, rows in orc_files(self.settings.dead_letter_directory):
            found[name.split("/")[0]] += rows.num_rows
        return dict(found)

    def versions(self, spark: Any) -> list[str]:
        """Names of all existing version directories, in the order of the hours."""
        storage, places = self.parts(spark).storage, [self.settings.location]
        for _ in self.settings.partition_columns:
            places = [
                f"{place}/{child.name}"
                for place in places
                for child in sorted(storage.list(place), key=lambda entry: (len(entry.name), entry.name))
                if "=" in child.name
            ]
        return [child.name for place in places for child in storage.list(place)]


SETTINGS = FlatSettings(
    database="flat",
    table="events",
    location="/warehouse/flat/events",
    checkpoint="/checkpoints/events",
    source=DirectorySource("/landing"),
    event_time=EventTime(KeyPath(("epoch",))),
)
