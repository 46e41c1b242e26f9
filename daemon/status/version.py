"""The version of the installed distribution."""

from __future__ import annotations


def version_text() -> str:
    """Return the version; ``0+source`` when run from a source tree that was not installed."""
    # Imported here: --help should not pay for it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tideline")
    except PackageNotFoundError:
        return "0+source"
