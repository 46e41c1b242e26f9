"""``tideline docs``: the pages of the documentation, even if only the program is installed.

Messages name pages and sections, such as ``docs/runbooks/replica.md#a-table-is-quarantined``,
and ``tideline docs`` accepts these names as they are. The wheel contains the pages (``daemon/docs``);
a checkout reads ``docs/``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from daemon.terminal.application import print_text
from state.errors import NotFound


_PACKAGE: Final = Path(__file__).parents[1]
_HEADING: Final = re.compile(r"(?m)^(#{1,6}) (.+)$")
_FENCE: Final = re.compile(r"(?ms)^```.*?^```")


@click.command("docs")
@click.argument("page", default="")
@click.argument("section", default="")
def docs(page: str, section: str) -> None:
    """Show a page of the documentation, or one of its sections; without PAGE, list the pages.

    PAGE is a name of the list, with or without its directory, or a page as messages name it
    (docs/runbooks/relay.md#dead-letters).
    SECTION is a heading, a part of it, or the first cell of a table: 'tideline docs errors gap'.
    """
    files = find_pages()
    if not page:
        width = max(map(len, files))
        for name, file in files.items():
            print_text(f"{name:{width}} {_HEADING.findall(file.read_text())[0][1]}")
        return
    path, _, anchor = page.partition("#")
    text = find_page(files, page_name(path)).read_text()
    wanted = section or anchor
    click.echo_via_pager(find_section(text, wanted) if wanted else text)


def find_pages() -> Mapping[str, Path]:
    """Return the files of the pages by name, in alphabetical order."""
    installed = _PACKAGE / "docs"
    directory = installed if installed.is_dir() else _PACKAGE.parent / "docs"
    files = sorted(directory.rglob("*.md"))
    return {page_name(str(file.relative_to(directory))): file for file in files}


def find_page(files: Mapping[str, Path], name: str) -> Path:
    """Return the page of a name, which may lack the directory if only one page ends so; raise NotFound."""
    if name in files:
        return files[name]
    match [file for known, file in files.items() if known.endswith(f"/{name}")]:
        case [file]:
            return file
    raise _not_found("page", name, files)


def page_name(path: str) -> str:
    """Return the name of a page: ``docs/FILE_SYSTEMS.md`` is ``file-systems``."""
    name = path.removeprefix("docs/").removesuffix(".md").removesuffix("/README")
    return name.lower().replace("_", "-")


def find_section(text: str, wanted: str) -> str:
    """Return the section under a heading, with its subsections, or the rows of tables that begin with a name.

    It finds a heading by its anchor or by words in it; an exact match comes first. Raises NotFound.
    """
    plain = _FENCE.sub(lambda block: re.sub("#", " ", block[0]), text)  # not a heading: a comment of a shell
    headings = list(_HEADING.finditer(plain))
    anchor = anchor_of(wanted)
    exact = [heading for heading in headings if anchor_of(heading[2]) == anchor]
    if not exact and (rows := _find_rows(text, wanted)):
        return rows
    similar = [heading for heading in headings if anchor in anchor_of(heading[2])]
    for heading in [*exact, *similar]:
        later = (each for each in headings if each.start() > heading.start())
        end = next((each.start() for each in later if len(each[1]) <= len(heading[1])), len(text))
        return text[heading.start() : end].rstrip() + "\n"
    raise _not_found("section", wanted, {anchor_of(heading[2]): None for heading in headings})


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as in links."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _find_rows(text: str, wanted: str) -> str:
    """Return the table rows whose first cell is ``wanted``, a line for each cell with its column."""
    names: list[str] = []
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            names = []
        elif set(line) <= set("|-: "):
            continue
        elif not names:
            names = cells
        elif cells[0].strip("`").lower() == wanted.lower():
            found += [f"{name}: {cell}\n" for name, cell in zip(names, cells, strict=False)]
    return "".join(found)


def _not_found(kind: str, wanted: str, known: Mapping[str, object]) -> NotFound:
    close = get_close_matches(wanted.lower(), known, n=3, cutoff=0.4)
    hint = (
        f"Did you mean {', '.join(map(repr, close))}?" if close else "Run 'tideline docs' to list the pages."
    )
    return NotFound(f"the documentation does not have this {kind}", hint=hint, **{kind: wanted})
