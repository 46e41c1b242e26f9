"""From the section ``mining`` to what the miner looks for: raw tables and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import ConfigError
from streaming.mining.model import CustomFunction, MiningRules, RawTable, Style


if TYPE_CHECKING:
    from daemon.keylog.settings import MiningConfig


def build_rules(config: MiningConfig) -> MiningRules:
    """Return raw tables and functions as the miner knows them; raise ConfigError if no raw table is configured."""
    tables = tuple(
        RawTable(name, raw.json_column, frozenset(raw.catalogs), raw.location, frozenset(raw.views))
        for name, raw in config.raw_tables.items()
    )
    functions = tuple(
        CustomFunction(name, Style(function.style), function.document_argument)
        for name, function in config.functions.items()
    )
    if not tables:
        raise ConfigError(
            "no raw table is configured for mining",
            hint="List the tables of raw JSON events under mining.raw_tables.",
        )
    return MiningRules(tables, functions, config.default_database)
