"""Writes the schema of the configuration into the chart's ``values.schema.json``.

With the schema, Helm refuses a misspelt setting before it installs anything. ``make chart-schema`` runs this.

The file is written by hand except for the definitions whose names begin with ``config.``. These are the
schema that ``tideline config schema`` prints, with three differences: nothing is required, because any
setting may come from an environment variable instead; a list may be a text with commas, as in the
configuration file; and titles and defaults, which Helm does not use, are omitted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from daemon.service.configuration import config_model


VALUES_SCHEMA: Final = Path(__file__).parents[1] / "helm" / "tideline" / "values.schema.json"
PREFIX: Final = "config."
ROOT: Final = f"{PREFIX}Config"
_DROPPED: Final = frozenset({"title", "default", "required"})


def build_definitions() -> dict[str, Any]:
    """Return the definitions of the configuration, which refer to each other by their names in the chart."""
    schema = config_model().model_json_schema()
    definitions = schema.pop("$defs") | {"Config": schema}
    return {f"{PREFIX}{name}": _convert(definitions[name]) for name in sorted(definitions)}


def _convert(schema: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        if key == "$ref":
            converted[key] = value.replace("#/$defs/", f"#/definitions/{PREFIX}")
        elif key == "properties":
            converted[key] = {name: _convert(each) for name, each in value.items()}
        elif isinstance(value, dict):
            converted[key] = _convert(value)
        elif isinstance(value, list):
            converted[key] = [_convert(each) if isinstance(each, dict) else each for each in value]
        else:
            converted[key] = value
    if converted.get("type") == "array":
        converted["type"] = ["array", "string"]
    return converted


def build_text(current: str) -> str:
    """Return the text of the file with the current definitions of the configuration at its end, one on each
    line.
    """
    kept = "".join(
        line for line in current.splitlines(keepends=True) if not line.startswith(f'    "{PREFIX}')
    )
    head, separator, tail = kept.rstrip().removesuffix("\n  }\n}").rpartition("\n")
    lines = [
        f'    "{name}": {json.dumps(schema, ensure_ascii=False)}'
        for name, schema in build_definitions().items()
    ]
    return head + separator + tail.rstrip(",") + ",\n" + ",\n".join(lines) + "\n  }\n}\n"


def main() -> None:
    """Write the file."""
    VALUES_SCHEMA.write_text(build_text(VALUES_SCHEMA.read_text()))


if __name__ == "__main__":
    main()
