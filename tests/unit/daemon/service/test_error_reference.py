"""docs/ERRORS.md lists every class of the error tree with its code and meaning, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from state.errors import TidelineError


PAGE = Path(__file__).parents[4] / "docs" / "ERRORS.md"


def tree(kind: type[TidelineError]) -> Iterator[type[TidelineError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


def own() -> list[type[TidelineError]]:
    """Return the tree's own classes; tests and other packages may derive private ones."""
    return [kind for kind in tree(TidelineError) if kind.__module__ == "state.errors"]


def meaning(kind: type[TidelineError]) -> str:
    """Return the first paragraph of the class docstring."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def test_the_page_lists_every_error_and_no_other() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted((kind.code, kind.__name__, meaning(kind)) for kind in own())


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in own()]
    assert len(set(codes)) == len(codes)


def test_default_hints_are_whole_sentences() -> None:
    cut = [kind.default_hint for kind in own() if kind.default_hint and not kind.default_hint.endswith(".")]
    assert not cut
