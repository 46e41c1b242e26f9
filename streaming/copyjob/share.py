"""Shares of a copy job: the division of a list of copies into shares, and the task that copies one.

A share is the work of one task. If a process is lost, Spark repeats its share, and progress is reported by
share, so shares are small. The cost of a file is its size and a constant, because opening and publishing it
take time as well.

A task runs in a Python process of an executor. It copies its share of the files like the daemon's own copy
threads. Copies and outcomes pass from process to process as JSON.

This module imports only ``handlers.files`` and ``state``, which the driver sends to the executors. An
executor needs only the clients of the file systems used. A failure of a file is an outcome and not a failure
of the task, because Spark would repeat all files of the share. A task leaves unfinished files of other
processes alone, because several tasks may write into one directory.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from handlers.events import SourceFile
from handlers.files.copying.byte_rates import ByteRate
from handlers.files.copying.copies import Copied, Copier, CopyTask
from handlers.files.copying.handles import CopyHandle
from handlers.files.copying.jobs import Outcome, SizedTask, require_fence
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.throttle import Throttle
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import MalformedEvent, Refused, TidelineError


FILE_COST_BYTES: Final = 1024 * 1024
"""Fixed cost of a file, in bytes that take the same time to copy."""
SHARE_COST_BYTES: Final = 256 * 1024 * 1024
SHARES_PER_SLOT: Final = 4
"""Shares for each task that runs at the same time, so that a slow machine takes fewer of them."""
SHARES_MAX: Final = 10_000
Numbered = tuple[int, dict[str, Any]]
"""A copy or an outcome in its JSON form, with the number of the copy."""
FILES_AT_ONCE: Final = 4


def copy_cost(size_bytes: int) -> int:
    """Return the cost of copying a file of this size."""
    return size_bytes + FILE_COST_BYTES


def count_shares(costs: Sequence[int], slots: int) -> int:
    """Return the number of shares for files of these costs if ``slots`` tasks run at the same time."""
    assert slots >= 1, slots
    shares = max(-(-sum(costs) // SHARE_COST_BYTES), slots * SHARES_PER_SLOT)
    return min(shares, len(costs), SHARES_MAX)


def split_shares(costs: Sequence[int], shares: int) -> list[list[int]]:
    """Distribute the indexes of ``costs`` over ``shares`` lists, none of them empty; the most expensive list
    comes first.

    Each file, in descending order of cost, goes to the share that is cheapest so far. No share then costs
    more than the mean and the largest file together.
    """
    assert 0 <= shares <= len(costs), (shares, len(costs))
    filled: list[list[int]] = [[] for _ in range(shares)]
    cheapest = [(0, number) for number in range(shares)]
    for index in sorted(range(len(costs)), key=lambda each: -costs[each]):
        cost, number = heapq.heappop(cheapest)
        filled[number].append(index)
        heapq.heappush(cheapest, (cost + costs[index], number))
    return [filled[number] for _, number in sorted(cheapest, key=lambda each: (-each[0], each[1]))]


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The settings for copying the files of a share, including secrets. The driver sends them to the
    executors.
    """

    read_roots: Sequence[str]
    fence: str
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    """Options of file systems by scheme."""
    files_at_once: int = FILES_AT_ONCE
    """Files that one task copies at the same time."""
    bytes_per_s_max: int | None = None
    """Bytes that one task reads in a second."""
    trusted: Sequence[str] = ()
    """Directories whose own paths may contain symbolic links."""
    umask: int | None = None
    """The umask of files and directories created; by default that of the executor."""


class ShareTask:
    """The task that Spark runs in an executor for each partition. A partition is one share."""

    def __init__(self, settings: ShareSettings, outcomes: Any) -> None:
        self._settings = settings
        self._outcomes = outcomes

    def __call__(self, shares: Iterable[Sequence[Numbered]]) -> None:
        """Copy the files of the partition."""
        for rows in shares:
            self._outcomes.add(copy_share(self._settings, rows))


class Outcomes:
    """An accumulator of lists in an executor, which collects outcomes until the task ends."""

    def zero(self, value: list[Numbered]) -> list[Numbered]:  # noqa: ARG002 - required by the port
        """Return an empty list."""
        return []

    # N802: Spark's name
    def addInPlace(self, value1: list[Numbered], value2: list[Numbered]) -> list[Numbered]:  # noqa: N802
        """Append."""
        value1.extend(value2)
        return value1


def copy_share(settings: ShareSettings, rows: Iterable[Numbered]) -> list[Numbered]:
    """Copy the numbered files of ``rows``; return their outcomes with the same numbers."""
    if settings.umask is not None:
        os.umask(settings.umask)
    file_systems = open_file_systems(settings.options, map(parse_location, settings.trusted))
    copier = Copier(
        file_systems,
        AllowedRoots.of(list(settings.read_roots)),
        sweeps=False,
        guard=lambda: require_fence(file_systems, settings.fence),
    )
    throttle = Throttle([ByteRate(settings.bytes_per_s_max)])
    with closing(CopyPool(copier, workers=settings.files_at_once, throttle=throttle)) as pool:
        handles = [(number, pool.submit(read_copy(values).task)) for number, values in rows]
        return [(number, write_outcome(_wait(handle))) for number, handle in handles]


def _wait(handle: CopyHandle) -> Outcome:
    try:
        return handle.result()
    except TidelineError as error:
        return error


def write_copy(copy: SizedTask) -> dict[str, Any]:
    """Return the JSON form of a copy."""
    task = copy.task
    return {
        "source": asdict(task.source),
        "target": task.target_uri,
        "above": task.above_uri,
        "bytes": copy.size_bytes,
    }


def read_copy(values: Mapping[str, Any]) -> SizedTask:
    """Read the JSON form of a copy; raise MalformedEvent."""
    try:
        task = CopyTask(SourceFile(**values["source"]), values["target"], values["above"])
        return SizedTask(task, int(values["bytes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedEvent("a copy instruction of a job cannot be read", reason=repr(error)) from error


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON form of an outcome."""
    if isinstance(outcome, Copied):
        return {"copied": asdict(outcome)}
    context = {name: value if _is_plain(value) else str(value) for name, value in outcome.context.items()}
    failed = {"code": outcome.code, "message": outcome.message, "hint": outcome.hint, "context": context}
    return {"failed": failed}


def read_outcome(values: Mapping[str, Any]) -> Outcome:
    """Read the JSON form of an outcome; raise MalformedEvent. An error has the class of its code."""
    try:
        if "copied" in values:
            return Copied(**values["copied"])
        failed = values["failed"]
        kind = _kinds(TidelineError).get(failed["code"], Refused)
        error = kind(failed["message"], hint=failed["hint"])
        error.context.update(failed["context"])
    except (KeyError, TypeError) as malformed:
        raise MalformedEvent("an outcome of a job cannot be read", reason=repr(malformed)) from malformed
    return error


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _kinds(root: type[TidelineError]) -> dict[str, type[TidelineError]]:
    kinds = {root.code: root}
    for kind in root.__subclasses__():
        kinds |= _kinds(kind)
    return kinds
