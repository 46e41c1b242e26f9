"""Draws boxes, arrows and bars as SVG text.

The pictures follow the reader's colour scheme and use the system's font. Their texts remain text, so readers
can search them, and changes appear as readable diffs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape


_STYLE: Final = """\
:root { --ink: #1f2933; --soft: #64748b; --paper: #ffffff; --fill: #f1f5f9; --line: #94a3b8; --mark: #0f766e;
  --glow: #ccfbf1; --warn: #b45309; --pale: #fef3c7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --paper: #0f172a;
  --fill: #1e293b; --line: #64748b; --mark: #5eead4; --glow: #134e4a; --warn: #fbbf24; --pale: #451a03; } }
text { font: 14px system-ui, sans-serif; fill: var(--ink); }
.small { font-size: 12px; fill: var(--soft); } .head { font-weight: 600; }
.code { font-family: monospace; font-size: 12px; }
.paper { fill: var(--paper); } .box { fill: var(--fill); stroke: var(--line); }
.area { fill: none; stroke: var(--line); stroke-dasharray: 4 4; }
.mark { fill: var(--glow); stroke: var(--mark); } .warn { fill: var(--pale); stroke: var(--warn); }
.line { fill: none; stroke: var(--soft); stroke-width: 1.5; marker-end: url(#tip); }
.curve { fill: none; stroke-width: 2; }
.tip { fill: var(--soft); }
.rule { stroke: var(--line); stroke-dasharray: 2 4; }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with its position, in pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def left(self) -> tuple[int, int]:
        """The middle of the left side."""
        return self.x, self.y + self.height // 2

    @property
    def right(self) -> tuple[int, int]:
        """The middle of the right side."""
        return self.x + self.width, self.y + self.height // 2

    @property
    def top(self) -> tuple[int, int]:
        """The middle of the upper side."""
        return self.x + self.width // 2, self.y

    @property
    def bottom(self) -> tuple[int, int]:
        """The middle of the lower side."""
        return self.x + self.width // 2, self.y + self.height


class Canvas:
    """A picture of one size, drawn in the order of the calls."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """A screen reader reads ``title`` instead of the picture."""
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def box(  # noqa: PLR0913 - a place and its content
        self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "box"
    ) -> Box:
        """Draw a box with centred lines of text, the first one as its name; return its position."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        first = y + height // 2 - 8 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            self.text(x + width // 2, first + 16 * number, line, "head" if number == 0 else "small", "middle")
        return Box(x, y, width, height)

    def area(self, x: int, y: int, width: int, height: int, name: str) -> None:
        """Draw a dashed frame with its name in the upper left corner."""
        self._parts.append(f'<rect class="area" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>')
        self.text(x + 10, y + 18, name, "small")

    def bar(self, x: int, y: int, width: int, height: int, *, kind: str = "mark") -> None:
        """Draw a rectangle without text."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="2"/>')

    def rule(self, x: int, y: int, to_x: int, to_y: int) -> None:
        """Draw a dotted line."""
        self._parts.append(f'<line class="rule" x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}"/>')

    def arrow(self, *points: tuple[int, int], label: str = "", above: bool = True) -> None:
        """Draw an arrow through the points. The label is next to the middle of the first segment."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline class="line" points="{path}"/>')
        (x, y), (to_x, to_y) = points[:2]
        if label and y == to_y:
            self.text((x + to_x) // 2, y - 7 if above else y + 16, label, "small", "middle")
        elif label:
            self.text(x + 7, (y + to_y) // 2 + 4, label, "small")

    def path(self, *points: tuple[int, int], kind: str) -> None:
        """Draw a line through the points."""
        joined = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline class="curve {kind}" points="{joined}"/>')
        self._parts += [f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>' for x, y in points]

    def text(self, x: int, y: int, text: str, kind: str = "", anchor: str = "start") -> None:
        """Write one line; ``kind`` is a class of the style."""
        self._parts.append(
            f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def to_svg(self) -> str:
        """Return the text of the SVG file."""
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        tip = (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
        )
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self._title)}">\n'
            f"<style>{_STYLE}</style>\n{tip}\n"
            f'<rect class="paper" width="{self._width}" height="{self._height}"/>\n{body}\n</svg>\n'
        )
