"""The site builds without warnings, contains every page, and loads nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text()
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    named = (ROOT / "mkdocs.yml").read_text()
    missing = [page for page in pages if f"{page.with_suffix('.md')}" not in named]
    assert not missing
    assert "Replicate your first database" in home


def test_the_home_page_is_the_readme_with_working_links(site: Path) -> None:
    home = (site / "index.html").read_text()
    assert 'href="PERFORMANCE.html"' in home
    assert 'src="pictures/flow.svg"' in home


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)\"", page.read_text())
        assert not loaded, page


def test_lists_and_tables_are_those_that_the_daemon_shows(site: Path) -> None:
    """MkDocs' Markdown needs a blank line before a list, and four blanks before an inner one; CommonMark,
    which the daemon's own site reads, does not."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        if built.exists():
            body = (
                built.read_text().partition('<article class="md-content__inner')[2].partition("</article>")[0]
            )
            here = MarkdownIt("commonmark", {"html": False}).enable("table").render(page.read_text())
            assert count_blocks(body) == count_blocks(here), page


def count_blocks(html: str) -> dict[str, int]:
    """Return how many lists, items and tables a page has."""
    return {tag: len(re.findall(rf"<{tag}>", html)) for tag in ("ol", "ul", "li", "table")}
