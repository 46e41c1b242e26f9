"""Adapts pages for the site, which contains only ``docs`` and the README as home page. A link to any other
file of the repository becomes the file's path as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from mkdocs.structure.files import Files


ROOT: Final = Path(__file__).parents[1]
_OUTSIDE_README: Final = re.compile(r"\[([^\]]+)\]\((?!docs/|\w+://|#)([^)]*)\)")
_OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?!docs/)(?:[a-z]+/|[A-Z.]+)[^)]*)\)")


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401 - mkdocs passes its configuration by name
    """Add the README as home page."""
    from mkdocs.structure.files import File

    text = _OUTSIDE_README.sub(r"\1 (`\2`)", (ROOT / "README.md").read_text())
    text = text.replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - as above
    """Replace links that leave ``docs`` with paths."""
    directory = (ROOT / "docs" / page.file.src_uri).parent

    def describe(link: re.Match[str]) -> str:
        target = (directory / link[2].partition("#")[0]).resolve()
        return (
            link[0] if target.is_relative_to(ROOT / "docs") else f"{link[1]} (`{target.relative_to(ROOT)}`)"
        )

    return _OUTSIDE.sub(describe, markdown)
