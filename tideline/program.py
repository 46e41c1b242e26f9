"""The entry point of the command ``tideline``.

It is not in the package ``daemon``, because another distribution may have replaced that one: python-daemon,
which Airflow needs, installs a package of the same name. The program then says so instead of failing at an
import.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final, NoReturn


FOREIGN: Final = "python-daemon"
_REMEDY: Final = (
    "Install Tideline into its own environment: 'pipx install tideline' or 'uv tool install tideline'."
)


def main() -> NoReturn:
    """Run a command and exit; exit with 1 if the package ``daemon`` is not Tideline's."""
    try:
        from daemon.service.command_line import main as run
    except ModuleNotFoundError as error:
        if error.name not in {"daemon", "daemon.service"}:
            raise
        _fail("another program's package 'daemon' is imported instead of Tideline's.")
    if is_shared_with_another():
        _fail(f"{FOREIGN} and Tideline have overwritten files in each other's package 'daemon'.")
    run()


def _fail(problem: str) -> NoReturn:
    sys.exit(f"Error [installation]: {problem}\n  {_REMEDY}")


def is_shared_with_another() -> bool:
    """Return whether python-daemon is installed in the same environment."""
    try:
        distribution(FOREIGN)
    except PackageNotFoundError:
        return False
    return True
