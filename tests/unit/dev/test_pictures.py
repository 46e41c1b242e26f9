"""The pictures of the documentation are those that the script draws, and their pages show them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from dev.pictures.__main__ import DIRECTORY, PICTURES
from tests.unit.test_docs import PAGES


@pytest.mark.parametrize("name", PICTURES)
def test_the_stored_picture_is_the_drawn_one(name: str) -> None:
    drawn = PICTURES[name]().to_svg()
    assert (DIRECTORY / f"{name}.svg").read_text() == drawn, "run 'make pictures'"
    assert ET.fromstring(drawn).get("aria-label")  # noqa: S314 - drawn by ourselves


def test_every_picture_is_shown_on_a_page() -> None:
    texts = [page.read_text() for page in PAGES]
    hidden = [path.name for path in DIRECTORY.glob("*.svg") if not any(path.name in text for text in texts)]
    assert not hidden
