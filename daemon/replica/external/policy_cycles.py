"""Builds a policy's cycles, which copy the files of external tables, and checks those of all policies.

``tideline config check --live`` warns about tables of Spark in a policy without cycles. Spark logs no event
when it writes rows, so the replica of such a table would keep the rows of its load.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from daemon.config.document import Problem, problem_of_error
from daemon.state_directory.directory import open_state
from handlers.files.copying.byte_rates import ByteRate, Urgency
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.processor_share import ProcessorShare
from handlers.files.copying.throttle import Throttle
from handlers.metastore.client import Metastore
from handlers.replication.external.cycle import ExternalSettings
from handlers.replication.external.cycle_thread import ExternalThread
from handlers.replication.external.records import CopyRecords
from handlers.replication.policy.locations import is_of_spark
from handlers.replication.policy.policy import Policy
from state.errors import MetastoreUnavailable, NotFound, TidelineError
from state.pieces import in_pieces
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from daemon.config.model import Config
    from daemon.config.settings.policies import PolicyConfig
    from handlers.replication.context import Context


STATE_KIND: Final = "external"
"""Prefix of the names of the files with the records of copies."""


def list_directory(config: Config, policy: str) -> Path:
    """Return the path of the file that lists a policy's external directories."""
    return config.state.dir / "external" / policy


def build_external(
    config: Config, name: str, context: Context, rates: Sequence[ByteRate], processor: ProcessorShare
) -> ExternalThread | None:
    """Return the cycles of a policy, None if it has no cycles; raise StateCorrupt and StateLocked.

    ``rates`` limit all copies of the policy. ``processor`` limits the processor time of copies that give way
    to replay.
    """
    policy = config.policy(name)
    if not policy.copies_external:
        return None
    external = policy.external
    settings = ExternalSettings(
        every_s=external.every_s,
        delete=external.delete,
        workers=external.workers,
        list_directory=list_directory(config, name),
    )

    own_rate = ByteRate(external.bytes_per_s_max)

    def open_pool() -> CopyPool:
        throttle = Throttle([own_rate, *rates], Urgency.CYCLE, processor=processor)
        return CopyPool(context.build_copier(), workers=external.workers, throttle=throttle)

    return ExternalThread(
        context, settings, CopyRecords(open_state(config.state.dir, STATE_KIND, name)), open_pool
    )


TIMEOUT_S: Final = 10.0
_PAGE: Final = 200


def spark_problems(
    config: Config, connect: Callable[[Sequence[str]], Metastore] | None = None
) -> Iterator[Problem]:
    """Yield a warning for each policy with tables of Spark whose new rows would not reach the target."""
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
            created = f"{count_text(len(tables), 'table')}, such as {tables[0]}"
            reason = f"Spark writes rows without events, and has created {created}"
            hint = "set it, so that cycles copy their files; otherwise they keep the rows of their loads"
            yield Problem(place, setting, None, reason, hint, warning=True)


def _find_spark_tables(source: Metastore, name: str, settings: PolicyConfig) -> Iterator[str]:
    """Yield the policy's tables that Spark has created and whose rows are replicated."""
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
    for piece in in_pieces(names, _PAGE):
        for table in source.get_tables(db, piece):
            if is_of_spark(table):
                yield table.tableName or ""
