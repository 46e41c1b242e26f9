"""The documentation as pages of the site, so that operators can read a runbook without access to the
internet.

The pages are those of ``tideline docs``. Their headings have the anchors that messages and cards use.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from daemon.site.pages import Asked
from daemon.terminal.pages import anchor_of, find_pages, page_name
from state.errors import NotFound


if TYPE_CHECKING:
    from markdown_it.token import Token


PATH: Final = "/docs"
_PAGE: Final = re.compile(r"^([\w./-]+\.md)(#.*)?$")


def runbook_path(look: str) -> str:
    """Return the path on the site of a section such as ``docs/runbooks/relay.md#dead-letters``."""
    page, _, anchor = look.partition("#")
    return f"{PATH}/{page_name(page)}" + (f"#{anchor}" if anchor else "")


def list_values(_asked: Asked) -> dict[str, Any]:
    """Return the values of the list of pages."""
    return {"pages": [(name, _title(name)) for name in find_pages()]}


def page_values(asked: Asked) -> dict[str, Any]:
    """Return the values of one page; raise NotFound."""
    if asked.name not in find_pages():
        raise NotFound("the page does not exist", hint="Open the list of pages.", page=asked.name[:100])
    return {"title": _title(asked.name), "body": Markup(_html(asked.name))}  # noqa: S704 - our own pages


def _title(name: str) -> str:
    first = find_pages()[name].read_text().partition("\n")[0]
    return first.removeprefix("# ")


@cache
def _html(name: str) -> str:
    from markdown_it import MarkdownIt  # several MB, which a daemon needs only if someone reads a page

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(find_pages()[name].read_text())
    folder = name if find_pages()[name].name == "README.md" else dirname(name)
    for token, inner in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor_of(inner.content))
    for token in tokens:
        for inner in token.children or ():
            _point(inner, folder)
    return (
        str(markdown.renderer.render(tokens, markdown.options, {}))
        .replace("<table>", '<div class="scroll" tabindex="0"><table>')
        .replace("</table>", "</table></div>")
    )


def _point(token: Token, folder: str) -> None:
    """Point a link to the page on the site, and omit pictures, which the wheel does not contain."""
    if token.type == "link_open" and (found := _PAGE.match(str(token.attrGet("href")))):
        page = page_name(normpath(join(folder, found[1])))
        token.attrSet("href", f"{PATH}/{page}{found[2] or ''}")
    if token.type == "image":
        token.type, token.tag = "text", ""
