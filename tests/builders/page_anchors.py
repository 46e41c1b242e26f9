"""The sections of a page of the documentation, as addresses name them."""

from __future__ import annotations

import re


def page_anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
