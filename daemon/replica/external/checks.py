"""Live checks of external tables for ``tideline config check --live``: tables of Spark in a policy that copies no files without events.

Spark logs no event when it writes rows. Without cycles, the replica of such a table keeps the rows of its load.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from daemon.config.document import Problem, problem_of_error
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.row_directories import is_of_spark
from state.errors import MetastoreUnavailable, NotFound, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.config.model import Config
    from daemon.config.settings.policies import PolicyConfig


TIMEOUT_S: Final = 10.0
_PAGE: Final = 200


def spark_problems(
    config: Config, connect: Callable[[Sequence[str]], Metastore] | None = None
) -> Iterator[Problem]:
    """Yield a warning for each policy with tables of Spark whose rows would not follow."""
    open_one = connect or (lambda uris: Metastore(uris, connect_timeout_s=TIMEOUT_S, timeout_s=TIMEOUT_S))
    for name, policy in config.policies.items():
        if policy.copies_external:
            continue
        key = "external_base" if policy.external_base is None else "external.every_s"
        place, setting = f"policy {name}", f"policies.{name}.{key}"
        try:
            with closing(open_one(config.sources[policy.source].metastore)) as source:
                tables = list(_find_spark_tables(source, name, policy))
        except MetastoreUnavailable:
            continue  # a problem of the source, which its own check reports
        except TidelineError as error:
            yield problem_of_error(place, setting, error)
            continue
        if tables:
            reason = (
                f"Spark writes rows without events, and has created {len(tables)} tables, such as {tables[0]}"
            )
            hint = "set it, so that their files are copied in cycles; otherwise they keep the rows of their loads"
            yield Problem(place, setting, None, reason, hint, warning=True)


def _find_spark_tables(source: Metastore, name: str, settings: PolicyConfig) -> Iterator[str]:
    """Yield the tables of the policy that Spark has created and whose rows are replicated."""
    db = settings.database
    policy = Policy(
        name,
        db,
        db,
        tuple(settings.tables.include),
        tuple(settings.tables.exclude),
        metadata_only=tuple(settings.metadata_only),
    )
    try:
        names = source.table_names(db)
    except NotFound:
        return
    names = [each for each in names if policy.covers(db, each) and policy.copies_rows(each)]
    for start in range(0, len(names), _PAGE):
        for table in source.get_tables(db, names[start : start + _PAGE]):
            if is_of_spark(table):
                yield table.tableName or ""
