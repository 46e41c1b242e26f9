"""Citations such as ``hive-replication.md §0c.2`` lead to a page of docs/reference and to a heading for that
section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest


ROOT: Final = Path(__file__).parents[2]
REFERENCES: Final = ROOT / "docs" / "reference"
FOLDERS: Final = ("state", "handlers", "streaming", "daemon", "dev", "bench", "tests", "docs", "helm", ".ci")
TEXTS: Final = frozenset({".py", ".md", ".toml", ".yaml", ".tpl", ".txt", ".java", ".sh", ".sql"})
SECTION: Final = r"§\d+[a-z]?(?:\.\d+)*"
CITATION: Final = re.compile(
    rf"(?P<page>[\w./-]+\.md) (?P<sections>{SECTION}(?:(?:, and |, | and |,){SECTION})*)"
)
LINK: Final = re.compile(r"\[[^]]*\]\(([\w.-]+\.md)\)")


class Citation(NamedTuple):
    """A section of a page, and the file that cites it."""

    file: str
    page: str
    section: str


def texts() -> Iterator[Path]:
    """Yield the files with code, comments and documentation, except the references and this test."""
    yield from (
        path for path in ROOT.iterdir() if path.suffix in TEXTS or path.name in {"Makefile", "Dockerfile"}
    )
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in TEXTS and REFERENCES not in path.parents and path != Path(__file__):
                yield path


def join_lines(text: str) -> str:
    """Return a text without line breaks and comment signs, because a citation may continue on the next
    line."""
    return re.sub(r"\n[\s#>*]*", " ", text)


@cache
def headings(page: str) -> frozenset[str]:
    """Return the sections for which a page has a heading."""
    text = (REFERENCES / page).read_text() if (REFERENCES / page).is_file() else ""
    return frozenset(re.findall(rf"(?m)^##+ ({SECTION}) \S", text))


def citations_in(file: str, text: str) -> Iterator[Citation]:
    """Yield every citation of a text, one for each section."""
    for match in CITATION.finditer(text):
        for section in re.findall(SECTION, match["sections"]):
            yield Citation(file, Path(match["page"]).name, section)


@cache
def joined_texts() -> dict[str, str]:
    """Return all texts by the name of their file, without line breaks."""
    return {str(path.relative_to(ROOT)): join_lines(path.read_text(errors="replace")) for path in texts()}


@cache
def cited() -> tuple[Citation, ...]:
    """Return every citation outside of the references."""
    return tuple(citation for file, text in joined_texts().items() for citation in citations_in(file, text))


def pages() -> list[Path]:
    return sorted(REFERENCES.glob("*.md"))


def test_every_cited_section_has_a_heading() -> None:
    missing = [citation for citation in cited() if citation.section not in headings(citation.page)]
    assert len(cited()) > 50, "citations are not recognised any more"
    assert not missing, missing


def find_uncited(pattern: str) -> list[str]:
    """Return the matches of a pattern outside of citations, in all texts, each with its file."""
    return [
        f"{file}: {match.group()}"
        for file, text in joined_texts().items()
        for match in re.finditer(pattern, CITATION.sub("CITED", text))
    ]


def test_no_section_is_cited_without_its_page() -> None:
    assert not find_uncited(r"§.{0,40}")


def test_a_reference_names_a_page_and_a_section() -> None:
    """The form is ``(reference: PAGE.md §N)``; a class of Hive is named in the sentence."""
    assert not find_uncited(r"[(;,] ?reference: (?!CITED).{0,40}")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_references_cite_their_own_sections_and_those_of_other_pages_correctly(page: Path) -> None:
    text = LINK.sub(r"\1", join_lines(page.read_text()))
    wrong = [each for each in citations_in(page.name, text) if each.section not in headings(each.page)]
    own = re.findall(SECTION, re.sub(rf"#+ {SECTION}", "", CITATION.sub("", text)))
    wrong += [Citation(page.name, page.name, each) for each in own if each not in headings(page.name)]
    assert not wrong, wrong


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_section_has_two_headings_and_each_page_is_in_the_index(page: Path) -> None:
    sections = re.findall(rf"(?m)^##+ ({SECTION}) ", page.read_text())
    assert len(sections) == len(set(sections))
    assert page.name == "README.md" or f"({page.name})" in (REFERENCES / "README.md").read_text()
