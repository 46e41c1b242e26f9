"""Reads the SQL files of the configuration into the key log before a driver runs by hand, so that their keys become columns.

The daemon mines all sources of queries itself (``mining.every_s``). Without it the directory of queries that
``tideline split try`` has made would wait for ``tideline keys mine``.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from daemon.keylog.mining_rules import build_rules
from daemon.keylog.opening import open_key_log
from daemon.keylog.settings import MINING


if TYPE_CHECKING:
    from daemon.config.model import Config


def mine_query_files(config: Config) -> int:
    """Mine all sources of kind 'sql-files', unless the daemon does; return the number of new or changed queries.

    Raises ConfigError if sources are configured without a raw table, and errors of the key log.
    """
    mining = MINING.of(config)
    sources = {name: each for name, each in mining.sources.items() if each.kind == "sql-files"}
    if not sources or mining.every_s is not None:
        return 0
    from handlers.files.systems.schemes import open_file_systems
    from streaming.mining.miner import Miner, mine
    from streaming.mining.sources.directory import Directory
    from streaming.mining.sources.sql_files import SqlFilesSource

    miner, queries = Miner(build_rules(mining)), 0
    with closing(open_key_log(config)) as log:
        for name, source in sources.items():
            tree = Directory.open(str(source.path), open_file_systems(config.files.all_options()))
            queries += mine(SqlFilesSource(name, tree, source.user, source.standing), miner, log).queries
    return queries
