"""A default that the configuration shares with the code below it is declared once:
``daemon.config.section.setting`` reads it from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest


ROOT: Final = Path(__file__).parents[4]
PACKAGES: Final = ("state", "handlers", "streaming", "daemon")
UNRELATED: Final = {"count", "format", "freshness"}
"""Settings that only look alike: the number of daemons and other counts; the format of logs and that of
records; a setting of the endpoint, and its status."""


def test_no_default_of_the_configuration_is_declared_again_in_a_dataclass() -> None:
    sections, others = dict[str, set[str]](), dict[str, set[str]]()
    for definition, is_section in class_definitions():
        for name, default in written_defaults(definition, is_section=is_section):
            (sections if is_section else others).setdefault(name, set()).add(default)
    repeated = {name for name, defaults in sections.items() if defaults & others.get(name, set())}
    assert repeated == UNRELATED, "let the section read its default with daemon.config.section.setting"


@pytest.mark.parametrize("text", ["1_000 * 2", "2000.0", "2000"])
def test_defaults_are_compared_as_values(text: str) -> None:
    assert plain(ast.parse(text, mode="eval").body) == "2000"


def class_definitions() -> Iterator[tuple[ast.ClassDef, bool]]:
    """Yield the dataclasses and the sections of the configuration, and whether each is a section."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
                    if is_dataclass or node.bases:
                        yield node, not is_dataclass


def written_defaults(definition: ast.ClassDef, *, is_section: bool) -> Iterator[tuple[str, str]]:
    for field in definition.body:
        match field:
            case ast.AnnAssign(
                target=ast.Name(id=name), value=ast.Call(func=ast.Name(id="Field"), keywords=keywords)
            ):
                values = (
                    [keyword.value for keyword in keywords if keyword.arg == "default"] if is_section else []
                )
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if not is_section:
                values = [value]
            case _:
                continue
        yield from ((name, default) for value in values if (default := plain(value)) is not None)


def plain(node: ast.expr) -> str | None:
    """Return a written default as text; None for names, which another module defines, and for "not given"."""
    try:
        # S307: our own source
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # noqa: S307
    except (NameError, TypeError, AttributeError):
        return None
    if value is None or value in ("", 0, False, (), [], {}):  # noqa: PLR6201 - some are not hashable
        return None
    return (
        str(int(value))
        if isinstance(value, float) and value.is_integer()
        else str(tuple(value) if isinstance(value, list) else value)
    )
