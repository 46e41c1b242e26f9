"""The address of a documentation page that a message names.

The code names pages as the repository does, such as ``docs/runbooks/relay.md#dead-letters``; tests check
these names. A user has no repository, so messages show the page's address below ``docs.url`` or, if that is
not set, the command that shows the page.
"""

from __future__ import annotations

import re
from typing import Final


_PAGE: Final = re.compile(r"\bdocs/((?:\w+/)*)(\w[\w.-]*)\.md(?:#([\w-]+))?")
_site = ""


def use_site(url: str) -> None:
    """Name pages by their address below ``url`` from now on; if ``url`` is empty, by the command that shows
    them.
    """
    global _site  # noqa: PLW0603 - one process has one reader, as with the secrets that are masked
    _site = url.rstrip("/")


def with_addresses(text: str) -> str:
    """Replace each page of the repository that a text names by its address or its command."""
    return _PAGE.sub(_address, text) if "docs/" in text else text


def _address(found: re.Match[str]) -> str:
    directory, page, anchor = found.groups()
    if _site:
        file = "index" if page == "README" else page
        return f"{_site}/{directory}{file}.html" + (f"#{anchor}" if anchor else "")
    name = f"{directory}{page}".removesuffix("/README").lower().replace("_", "-")
    return f"tideline docs {name}" + (f" {anchor}" if anchor else "")
