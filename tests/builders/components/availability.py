"""What a test does about a real component that cannot start on this machine."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dev.stack.errors import StackError


if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def or_skipped(component: str) -> Iterator[None]:
    """Start ``component`` in here: where it cannot, the run fails in CI, and elsewhere its tests are skipped."""
    try:
        yield
    except StackError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no {component}: {error}")


def program_or_skipped(name: str) -> None:
    """The same for a program that tests run others under."""
    if shutil.which(name) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing: crash tests cannot run")
        pytest.skip(f"{name} is not installed")
