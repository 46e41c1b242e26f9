"""Builds the cycles that copy the files of a policy's external tables, from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from daemon.process.state_file import open_state
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.throttle import Throttle
from handlers.replication.external.cycle import ExternalSettings
from handlers.replication.external.cycle_thread import ExternalThread
from handlers.replication.external.records import CopyRecords


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config
    from handlers.replication.context import Context


STATE_KIND: Final = "external"
"""Prefix of the names of the files with the records of copies."""


def list_directory(config: Config, policy: str) -> Path:
    """Return where the list of a policy's external directories is written."""
    return config.state.dir / "external" / policy


def build_external(config: Config, name: str, context: Context) -> ExternalThread | None:
    """Return the cycles of a policy, None if its settings have none; raise StateCorrupt and StateLocked."""
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

    def open_pool() -> CopyPool:
        throttle = None if external.bytes_per_s_max is None else Throttle(external.bytes_per_s_max)
        pool = CopyPool(
            Copier(context.files, context.copies.allowed), workers=external.workers, throttle=throttle
        )
        pool.protect(context.target_position.require_held)
        return pool

    return ExternalThread(
        context, settings, CopyRecords(open_state(config.state.dir, STATE_KIND, name)), open_pool
    )
