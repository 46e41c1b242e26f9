"""The status page: the text of ``tideline status`` for a browser. It has no scripts and is refreshed every five seconds."""

from __future__ import annotations

from html import escape
from string import Template
from typing import TYPE_CHECKING, Any, Final

from daemon.status.text import status_text


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.status.model import DaemonStatus, StatusSection


_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width">
<title>Tideline on $host</title>
<style>
body { font: 14px/1.5 ui-monospace, monospace; margin: 2em; color-scheme: light dark; }
pre { overflow-x: auto; }
</style>
</head>
<body>
<pre>$text</pre>
$links<p><a href="/api/v1/status">status as JSON</a> · <a href="/metrics">metrics</a> · <a href="/readyz">ready?</a></p>
</body>
</html>
""")


def status_page(status: DaemonStatus, sections: Sequence[StatusSection[Any]]) -> str:
    """Return the page; names and messages are foreign texts and are escaped."""
    return _PAGE.substitute(
        host=escape(status.host),
        text=escape(status_text(status, sections)),
        links="".join(section.links(section.of(status)) for section in sections),
    )
