"""Fails or skips tests whose real component cannot start on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dev.stack.errors import StackError


@contextmanager
def start_or_skip(component: str) -> Iterator[None]:
    """Start ``component`` inside the block: if it cannot start, the run fails in CI, and elsewhere its tests
    are skipped."""
    try:
        yield
    except StackError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no {component}: {error}")


def require_program(name: str) -> None:
    """Do the same for a program that must be installed."""
    if shutil.which(name) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing: crash tests cannot run")
        pytest.skip(f"{name} is not installed")
