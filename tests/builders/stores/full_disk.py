"""A disk that takes no more bytes, for this process."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(file_bytes: int = 64 * 1024) -> Iterator[None]:
    """Make every write beyond ``file_bytes`` of a file fail, as a full disk does (Python ignores the signal
    of the limit)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
