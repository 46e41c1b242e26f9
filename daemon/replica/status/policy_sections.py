"""The sections of the status with rows for every policy.

To add a section, write a module in this folder, and a line in ``POLICY_SECTIONS``. A section consists of the
rows of all policies. Until the loop of a policy has opened its state, the policy's rows come from the
configuration alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.replica.external.status import EXTERNAL, describe_external, describe_unopened
from daemon.replica.status.copies import COPIES, CopyStatus, describe_copies
from daemon.replica.status.left import LEFT, list_left
from daemon.replica.status.loads import LOADS, list_loads
from daemon.replica.status.points import POINTS
from daemon.replica.status.unreplicated import UNREPLICATED, list_unreplicated


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.config.settings.policies import PolicyConfig
    from daemon.replica.loading.load_resources import LoadCopies
    from daemon.replica.status.loads import LoadCounts
    from daemon.replica.status.points import PointTaker
    from daemon.status.model import StatusSection
    from handlers.files.copying.pool import CopyPool
    from handlers.replication.context import Context
    from handlers.replication.external.cycle_thread import ExternalThread
    from handlers.replication.loading.load_thread import LoadThread


@dataclass(frozen=True, slots=True)
class OpenPolicy:
    """The parts of a policy's loop that status sections read. Reading them is thread-safe."""

    name: str
    settings: PolicyConfig
    context: Context
    copies: CopyPool
    load_copies: LoadCopies
    load_counts: LoadCounts
    load_thread: LoadThread
    external: ExternalThread | None
    points: PointTaker


@dataclass(frozen=True, slots=True)
class PolicySection:
    """One section, and the functions that return its rows for one policy."""

    section: StatusSection[Any]
    read: Callable[[OpenPolicy], Sequence[Any]]
    read_unopened: Callable[[str, PolicyConfig], Sequence[Any]] = lambda _name, _settings: ()
    """Returns the rows until the loop has started."""
    after_end: bool = False
    """Whether a policy whose replication has ended still has rows. They must need no operator."""


LOADS_OF_POLICY: Final = PolicySection(
    LOADS,
    lambda policy: list_loads(
        policy.name,
        policy.context,
        policy.load_counts,
        policy.load_thread.table,
        policy.load_thread.find_next_try_s,
    ),
)

POLICY_SECTIONS: Final = (
    PolicySection(POINTS, lambda policy: policy.points.rows(), after_end=True),
    PolicySection(
        COPIES,
        lambda policy: [describe_copies(policy.name, policy.context, policy.copies, policy.load_copies)],
        lambda name, _: [CopyStatus(name)],
        after_end=True,
    ),
    PolicySection(
        EXTERNAL,
        lambda policy: [
            describe_unopened(policy.name, policy.settings)
            if policy.external is None
            else describe_external(policy.name, policy.context.policy.source_db, policy.external)
        ],
        lambda name, settings: [describe_unopened(name, settings)],
    ),
    LOADS_OF_POLICY,
    PolicySection(LEFT, lambda policy: list_left(policy.name, policy.context)),
    PolicySection(UNREPLICATED, lambda policy: list_unreplicated(policy.name, policy.context)),
)
"""In the order of the status."""
