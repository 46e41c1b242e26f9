"""Messages, hints and pages name commands that the command line accepts, and settings that the configuration
has."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import pytest

from daemon.config.section import section_of
from daemon.service.command_line import tideline
from daemon.service.configuration import config_model


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel


ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("state", "handlers", "streaming", "daemon")
GUIDES: Final = [
    *(ROOT / "docs/runbooks").glob("*.md"),
    ROOT / "docs/guides/policies.md",
    ROOT / "docs/ERRORS.md",
]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAME: Final = "NAME"
"""Stands for a part of a message that is known at run time, and for a name of the user's choice in the path
of a setting."""

MENTION: Final = re.compile(
    r"""'tideline\ (?P<quoted>(?:[^'\n]|(?<=\ )'[^'\n]*')+)'   # in a message
    | `{1,2}tideline\ (?P<span>[^`]+)`                       # in a page or docstring
    | ^\s*tideline\ (?P<line>[a-z][^\n]*)$                   # in a code block, or the whole of a string""",
    re.MULTILINE | re.VERBOSE,
)
SETTING: Final = re.compile(r"(?<![\w./$-])([a-z_]+(?:\.[\w-]+)+)(?![\w/(.-]*[\w/(])")
NOT_COMMANDS: Final = {"copies": "name of a Spark application"}
FILE_NAMES: Final = (".db", ".json", ".md", ".py", ".yaml")


class Text(NamedTuple):
    """A text of the product and where it stands."""

    path: str
    line: int
    text: str


def pages(paths: list[Path]) -> Iterator[Text]:
    for path in paths:
        yield Text(str(path.relative_to(ROOT)), 1, path.read_text())


def strings() -> Iterator[Text]:
    """Yield the strings of all modules, docstrings included; replacement fields are ``NAME``."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        fields: set[int] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                fields.update(map(id, node.values))
                parts = [str(each.value) if isinstance(each, ast.Constant) else NAME for each in node.values]
                yield Text(str(path.relative_to(ROOT)), node.lineno, "".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in fields:
                yield Text(str(path.relative_to(ROOT)), node.lineno, node.value)


def mentions(text: str) -> Iterator[str]:
    """Yield the commands that a text names, without what follows them on a shell's line."""
    for found in MENTION.finditer(text.replace("\\\n", " ")):
        command = next(filter(None, found.groups()))
        yield re.split(r"\s+(?:#|\||>|&&)(?:\s|$)", command)[0] if " | " not in command else command


def problem_of(command: str) -> str | None:
    """Return why the command line would refuse a command, or None.

    A command without arguments is only named, and so is one whose last word is an option without its value.
    With arguments it must be complete.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        return str(error)
    found: click.Command = tideline
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        if "|" in words[:2] or "|" in words[0]:
            return _unknown(found, [word for word in re.split(r"[|\s]+", " ".join(words)) if word])
        inner = found.get_command(click.Context(found), words[0])
        if inner is None:
            return f"no command {words[0]!r}"
        found, words = inner, words[1:]
    return _problem_of_arguments(found, [word for word in words if word not in {"…", "..."}])


def _unknown(group: click.Group, names: list[str]) -> str | None:
    unknown = [name for name in names if group.get_command(click.Context(group), name) is None]
    return f"no commands {unknown}" if unknown else None


def _problem_of_arguments(command: click.Command, words: list[str]) -> str | None:
    if not words or words in (["--help"], ["--debug"], ["--version"]):
        return None
    context = click.Context(command)
    try:
        given, left, _ = command.make_parser(context).parse_args([word.strip("[]") for word in words])
    except click.BadOptionUsage:
        return None
    except click.UsageError as error:
        return error.format_message()
    missing = [
        each.human_readable_name
        for each in command.params
        if isinstance(each, click.Argument) and each.required and not given.get(str(each.name))
    ]
    if left or (missing and not words[0].startswith("-")):
        return f"not accepted: {left}; missing: {missing}"
    return None


def wrong_commands(texts: Iterator[Text]) -> list[str]:
    return [
        f"{path}:{line}: tideline {command}: {problem}"
        for path, line, text in texts
        for command in mentions(text)
        if command[0].islower() and command not in NOT_COMMANDS and (problem := problem_of(command))
    ]


def test_commands_that_messages_and_docstrings_name_exist() -> None:
    wrong = wrong_commands(strings())
    assert not wrong, "\n".join(wrong)


def test_commands_that_pages_name_exist() -> None:
    wrong = wrong_commands(pages(PAGES))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "Run 'tideline unquarantine POLICY TABLE'.",
        "Run 'tideline release POLICY TABLE --now'.",
        "Run 'tideline dlq show --limit 3 one two'.",
        "Run 'tideline resume POLICY TABLE'.",
        "Run 'tideline timeline refill'.",
        "Run `tideline dlq skip 3` at once",
        "```sh\ntideline config validate\n```",
        "``tideline dlq list | drop``",
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert wrong_commands(iter([Text("page", 1, text)]))


@cache
def setting_paths() -> frozenset[tuple[str, ...]]:
    """Return the paths of all settings and sections, with NAME for names of the user's choice."""

    def below(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, field in model.model_fields.items():
            inner, named = section_of(field.annotation, field.metadata)
            yield (*path, name)
            if inner is not None:
                yield from below(inner, (*path, name, NAME) if named else (*path, name))
            elif "dict" in str(field.annotation):
                yield (*path, name, NAME)

    return frozenset(below(config_model(), ()))


def is_setting(words: tuple[str, ...]) -> bool:
    """Whether these words are the path of a setting, where NAME may be any word or be left out."""
    return any(_matches(path, words) for path in setting_paths())


def _matches(path: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not path or not words:
        return not words
    if path[0] == NAME:
        return _matches(path[1:], words[1:]) or _matches(path[1:], words)
    return path[0] == words[0] and _matches(path[1:], words[1:])


def unknown_settings(texts: Iterator[Text]) -> list[str]:
    sections = {path[0] for path in setting_paths()}
    return [
        f"{path}:{line}: {name}: not a setting"
        for path, line, text in texts
        if " " in text
        for name in SETTING.findall(text)
        if name.split(".")[0] in sections
        and not name.endswith(FILE_NAMES)
        and not is_setting(tuple(name.split(".")))
    ]


def messages() -> Iterator[Text]:
    """Yield the strings that are not docstrings: those name modules and classes by their dotted names."""
    return (text for text in strings() if "``" not in text.text)


def test_settings_that_messages_name_exist() -> None:
    wrong = unknown_settings(messages())
    assert not wrong, "\n".join(wrong)


def test_settings_that_the_guides_for_operators_name_exist() -> None:
    wrong = unknown_settings(pages(GUIDES))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("raise supervisor.attempts_max now", True),
        ("set policies.NAME.bootstrap to 'auto'", True),
        ("set sources.lake.topic first", True),
        ("set sources.lake.topik first", False),
        ("raise supervisor.atempts_max.", False),
    ],
)
def test_a_setting_that_does_not_exist_is_found(text: str, is_known: bool) -> None:
    assert (not unknown_settings(iter([Text("page", 1, text)]))) == is_known
