"""Raises the limit of file descriptors, and reserves a part of them that connections from outside must not
use.

A process without a free descriptor can open neither a file nor a connection to Kafka or a metastore. The
system gives a new descriptor the lowest free number, so this number shows how many are in use.
"""

from __future__ import annotations

import resource
from typing import Final


SOFT_LIMIT_MAX: Final = 65_536
"""The highest limit to set: some programs that inherit it loop over every possible descriptor."""
RESERVED: Final = 512
"""Descriptors for state files, copies, metastores and Kafka."""


def raise_limit() -> int:
    """Raise the soft limit as far as the hard limit and ``SOFT_LIMIT_MAX`` allow, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOFT_LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, SOFT_LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def is_reserved(descriptor: int) -> bool:
    """Whether a new connection from outside has a descriptor that is reserved for the daemon's own work.

    If the limit is less than twice the reserve, connections get half of the limit.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return False
    return descriptor >= soft - min(RESERVED, soft // 2)
