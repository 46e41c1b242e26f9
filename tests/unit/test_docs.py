"""What the documentation refers to exists: paths, tests, other pages and their headings, and the imports of
its examples."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dev.chart_schema import VALUES_SCHEMA, build_text
from tests.builders.components.page_runner import output_pattern


ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
DESIGNS: Final = [
    page
    for name in ("state", "handlers", "streaming", "daemon", "dev")
    for page in (ROOT / name).rglob("*.md")
]
TOP: Final = r"(?:state|handlers|streaming|daemon|dev|bench|tests|helm|docs)"


def of_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


def paths(text: str) -> Iterator[str]:
    """Yield the paths of the repository that a page names in code spans, without patterns of names."""
    for span in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(rf"{TOP}/[\w./*-]*", span):
            yield span


def headings(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub writes them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    return {
        re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        for title in re.findall(r"(?m)^#+ (.*)$", text)
    }


def test_the_chart_knows_the_settings_of_the_configuration() -> None:
    written = VALUES_SCHEMA.read_text()
    assert written == build_text(written), "run: make chart-schema"


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    missing = [path for path in paths(page.read_text()) if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing, missing


@pytest.mark.parametrize("page", [*PAGES, *DESIGNS, ROOT / "helm/tideline/README.md"], ids=of_page)
def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not re.match(r"\w+://", link):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            assert target.exists(), link
            assert not anchor or anchor in headings(target), link


def test_every_test_that_a_page_names_exists() -> None:
    known = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in (path.stem, *re.findall(r"(?m)^ *(?:async )?def (test_\w+)", path.read_text()))
    }
    named = {name for page in [*PAGES, *DESIGNS] for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert named, "no page names a test"
    assert not named - known, sorted(named - known)


def imports() -> list[tuple[str, str, str]]:
    """Return (page, module, name) of every import in the examples."""
    return [
        (of_page(page), node.module or "", alias.name)
        for page in PAGES
        for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text())
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


@pytest.mark.parametrize(("page", "module", "name"), imports())
def test_examples_import_what_exists(page: str, module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name), page


def test_the_readme_says_of_each_source_version_what_the_page_about_replication_says() -> None:
    marks = r"(?s)<!-- source versions: .*?<!-- end of source versions -->"
    (ours,), (theirs,) = (
        re.findall(marks, (ROOT / page).read_text()) for page in ("README.md", "docs/REPLICATION.md")
    )
    assert ours == theirs


def test_an_output_on_a_page_matches_any_numbers_and_widths_but_no_other_words() -> None:
    pattern = output_pattern("shop  3  2.2 KiB  9 d  -\n...\nlast event after 0.9 s ...\n")
    assert pattern.fullmatch("shop 1,003 5 B      10 d -\n\nmore\nlast event after 1 s (relay)\n")
    assert not pattern.fullmatch("blog 3 2.2 KiB 9 d -\nlast event after 0.9 s (relay)\n")
    assert not pattern.fullmatch("shop 3 2.2 KiB 9 d -\nlast event after - s (relay)\n")
