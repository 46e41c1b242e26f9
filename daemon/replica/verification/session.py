"""Opens the resources of a verification: separate connections to both metastores, and threads that list
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from daemon.config.model import Config
from daemon.replica.policies import database_directories, handler_policy, named_directories
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.replication.verification.reading import Side
from handlers.replication.verification.verifier import CompareRows, Following, Verifier
from state.errors import NotFound
from streaming.settings import SparkSettings


LISTERS: Final = 8
"""Threads that list directories of one policy."""


@contextmanager
def open_verifier(
    config: Config,
    name: str,
    clients: tuple[Metastore, Metastore],
    following: Following,
    *,
    checksums: bool = False,
    compare_rows: CompareRows | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Iterator[Verifier]:
    """Provide a verifier of policy ``name``. The verifier uses the caller's clients of source and target. Use
    them from the caller's thread only.
    """
    source, target = clients
    policy = handler_policy(config, name)
    roots = AllowedRoots.of(config.sources[config.policy(name).source].read_roots)
    files = open_file_systems(config.files.all_options(), [*roots.roots, *named_directories(policy)])
    with suppress(NotFound):
        files.trust(database_directories(target.get_database(policy.target_db)))
    with ThreadPoolExecutor(LISTERS, thread_name_prefix="verify") as executor:

        def side(metastore: Metastore, db: str, *, at_source: bool) -> Side:
            return Side(
                metastore,
                db,
                files,
                executor,
                policy,
                at_source=at_source,
                allowed=roots if at_source else None,
                checksums=checksums,
                beat=beat,
            )

        yield Verifier(
            side(source, policy.source_db, at_source=True),
            side(target, policy.target_db, at_source=False),
            following,
            compare_rows=compare_rows,
            beat=beat,
        )


@contextmanager
def open_row_comparison(settings: SparkSettings) -> Iterator[CompareRows]:
    """Start Spark and provide a comparison of rows. Raises ConfigError, with the package to install, if Spark
    is missing.

    Raises Transient if Spark's JVM or its environment fails, because that is not a difference of rows.
    """
    from streaming.driver.session import start
    from streaming.jvm_errors import jvm_errors
    from streaming.rows.comparison import CONF, RowComparison

    spark = start(replace(settings, conf={**settings.conf, **CONF}), name="tideline-verify")
    with jvm_errors(spark):
        yield RowComparison(spark)
