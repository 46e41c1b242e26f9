"""Elements of HTML pages, rendered on the server:
no scripts, no external resources, foreign texts escaped.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from string import Template
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
$links
</body>
</html>
""")
_STYLE: Final = """
body { font: 14px/1.5 ui-monospace, monospace; margin: 2em; color-scheme: light dark; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0 1.2em 0 0; }
th { border-bottom: 1px solid; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.t { white-space: nowrap; }
tr.empty td, .dim { opacity: .6; }
.bar { width: 8em; height: .8em; background: #8883; }
.bar rect { fill: #2a7fbf; }
.wide { width: 32em; max-width: 90vw; }
.bad { color: #c33; }
"""
STYLE_SOURCE: Final = f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"
"""Allows the style in the content security policy."""
_LINKS: Final = Template(
    '<p><a href="/">status</a> · <a href="/flat">flat tables</a> · <a href="$json">this as JSON</a></p>'
)


def table(head: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], classes: Sequence[str] = ()) -> str:
    """Return a table. Cells are HTML; ``head`` has the name and the CSS class of each column."""
    lines = [
        "<table>",
        "<tr>" + "".join(f'<th class="{kind}">{text(name)}</th>' for name, kind in head) + "</tr>",
    ]
    for number, row in enumerate(rows):
        kind = f' class="{classes[number]}"' if classes and classes[number] else ""
        cells = "".join(f'<td class="{head[n][1]}">{cell}</td>' for n, cell in enumerate(row))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def bar(share: float | None) -> str:
    """Return a share (0 to 1) as a bar and a percentage, or ``-`` for None."""
    if share is None:
        return '<span class="dim">-</span>'
    return f"{drawn_bar(share)} {percent_text(share)}"


def drawn_bar(share: float, kind: str = "bar") -> str:
    """Return a share as a bar."""
    width = min(100.0, max(0.0, 100 * share))
    rect = f'<rect width="{width:.1f}" height="10"/>'
    return f'<svg class="{kind}" viewBox="0 0 100 10" preserveAspectRatio="none">{rect}</svg>'


def percent_text(share: float) -> str:
    """Return a share as a percentage such as ``42 %`` or ``0.31 %``."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def text(value: object) -> str:
    """Return a foreign text as HTML, with markup and control characters escaped."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(value))
    return escape(shown)


def page(title: str, body: str, json_path: str | None) -> str:
    """Return a complete page with ``body``, which is HTML; without ``json_path``, it has no links."""
    links = "" if json_path is None else _LINKS.substitute(json=escape(json_path))
    return _PAGE.substitute(title=text(title), style=_STYLE, body=body, links=links)
