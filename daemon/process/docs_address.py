"""The address of a documentation page that a message names.

The code names pages as the repository does, such as ``docs/runbooks/relay.md#dead-letters``; tests check
these names. A user has no repository: messages show the address on the site of ``docs.url``, or without one
the command that shows the section.
"""

from __future__ import annotations

import re
from typing import Final


_PAGE: Final = re.compile(r"\bdocs/((?:\w+/)*)(\w[\w.-]*)\.md(?:#([\w-]+))?")
_site = ""


def use_site(url: str) -> None:
    """From now on, name pages by their address below ``url``; an empty one means by their command."""
    global _site  # noqa: PLW0603 - one process has one reader, as with the secrets that are masked
    _site = url.rstrip("/")


def with_addresses(text: str) -> str:
    """Return a text that names each page of the repository as its reader finds it."""
    return _PAGE.sub(_address, text) if "docs/" in text else text


def _address(found: re.Match[str]) -> str:
    directory, page, anchor = found.groups()
    if _site:
        file = "index" if page == "README" else page
        return f"{_site}/{directory}{file}.html" + (f"#{anchor}" if anchor else "")
    name = f"{directory}{page}".removesuffix("/README").lower().replace("_", "-")
    return f"tideline docs {name}" + (f" {anchor}" if anchor else "")
