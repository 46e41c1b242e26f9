"""Writes the input of the demo: raw events, the queries of users, and the configuration of Tideline."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import yaml

from dev.fixtures.json_events import EPOCH_S, HOUR_S, event


TABLE: Final = "default.events_flat_web"
RAW: Final = "default.raw_events"
HOURS: Final = 3
ANN: Final = """
-- the query of the original article, with a custom function
SELECT event.epoch, response.body_parameters, response.experiment, response.language
FROM default.raw_events AS event
LATERAL VIEW event_parser(
    event.json, 'http.body_parameters', 'action.experiment', 'action.language', 'action.name'
  ) response AS body_parameters, experiment, language, action_name
WHERE yyyy_mm_dd = '2016-04-18' AND hh = 21 AND action_name = 'explorer';
"""
BOB: Final = """
SELECT get_json_object(json, '$.geo.cc') AS country, count(*), avg(get_json_object(json, '$.http.bytes'))
FROM raw_events
WHERE get_json_object(json, '$.action.naem') IS NULL  -- a misspelled key
GROUP BY get_json_object(json, '$.geo.cc');
"""
CID: Final = """
-- the key is $.user.id, whatever aliases the query uses
SELECT get_json_object(u.json_of_user, '$.id') AS id, count(*)
FROM (SELECT get_json_object(json, '$.user') AS json_of_user FROM default.raw_events) u
GROUP BY get_json_object(u.json_of_user, '$.id');
"""
DORA: Final = "SELECT json_tuple(json, 'dc', 'server') AS (dc, server) FROM default.raw_events;\n"


def write_events(directory: Path, per_hour: int, first_hour: int, hours: int) -> None:
    """Write one file of JSON lines for each hour. Each file appears complete, by a rename."""
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(first_hour)  # the same events in every run
    for hour in range(first_hour, first_hour + hours):
        started_s = EPOCH_S - EPOCH_S % HOUR_S + hour * HOUR_S
        lines = [_line(chance, started_s + number * HOUR_S // per_hour) for number in range(per_hour)]
        part = directory / f".hour-{hour}.part"
        part.write_text("".join(lines), encoding="utf-8")
        part.rename(directory / f"hour-{hour}.json")


def _line(chance: random.Random, epoch_s: int) -> str:
    return json.dumps(event(chance, epoch_s), separators=(",", ":")) + "\n"


def write_query(directory: Path, user: str, text: str) -> None:
    """Write a query to the directory of the user."""
    user_directory = directory / user
    user_directory.mkdir(parents=True, exist_ok=True)
    (user_directory / f"{user}.sql").write_text(text, encoding="utf-8")


def write_config(file: Path, users: tuple[str, ...]) -> None:
    """Write Tideline's configuration for this directory."""
    here = file.parent.resolve()
    config: dict[str, Any] = {
        "state": {"dir": str(here / "state")},
        "mining": {
            "raw_tables": {RAW: {"json_column": "json"}},
            "functions": {"event_parser": {"style": "dotted"}},
            "sources": {
                user: {"kind": "sql-files", "path": (here / "queries" / user).as_uri(), "user": user}
                for user in users
            },
        },
        "flat": {
            "web": {
                "table": TABLE,
                "raw_table": RAW,
                "location": (here / "flat").as_uri(),
                "source": {"kind": "directory", "path": (here / "raw").as_uri()},
                "event_time": {"key": "epoch"},
                "raw_files": (here / "raw").as_uri(),
                "rules": {"whitelist": ["epoch", "uuid"], "probation_values": 100},
            }
        },
    }
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
