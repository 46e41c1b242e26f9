"""Reads the file and the ``TIDELINE__…`` variables into plain values, with the place of each key.

It does not use the settings sources of pydantic: they do not record the file, line or variable of a value,
silently keep the last of two equal keys, and ignore a variable whose first section is misspelled. In each
case a user would rely on a setting that the daemon does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from daemon.process.docs_address import with_addresses
from state.errors import TidelineError
from state.value_text import value_text


Key = tuple[str, ...]

ENV_PREFIX: Final = "TIDELINE__"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
DEPTH_MAX: Final = 32
NODES_MAX: Final = 200_000
"""Values in the file; aliases count at each use, because a few of them can expand to billions."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a place: ``file:line``, an environment variable, or a live component.

    ``key`` is the setting with dots.
    """

    place: str
    key: str
    value: str | None
    """The value of the setting as text; None if it is unknown or secret."""
    reason: str
    hint: str = ""
    warning: bool = False
    """Whether the daemon can run in spite of the problem."""

    def order(self) -> tuple[str, int, str]:
        """Sort by file and line, then by key."""
        name, _, line = self.place.rpartition(":")
        return (name, int(line), self.key) if line.isdigit() else (self.place, 0, self.key)

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        text = (
            f"{self.place}: {self.key}{shown}: {self.reason}" if self.key else f"{self.place}: {self.reason}"
        )
        return with_addresses(f"{text} ({self.hint})" if self.hint else text)


@dataclass(slots=True)
class Document:
    """The configuration as nested plain values, with the place of each key and the problems found."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, str] = field(default_factory=dict)
    sections: dict[Key, str] = field(default_factory=dict)
    """The place of the first key below each section, for sections without their own place."""
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def place(self, key: Key) -> str:
        """Return the place of ``key`` or of the nearest key around it: ``file:line`` or a variable's name."""
        if key and (place := self.places.get(key, self.sections.get(key))):
            return place
        for length in range(len(key) - 1, -1, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return "configuration"

    def set_place(self, key: Key, place: str) -> None:
        """Record the place of ``key``."""
        self.places[key] = place
        for length in range(1, len(key)):
            self.sections.setdefault(key[:length], place)

    def section(self, key: Key) -> dict[str, Any]:
        """Return the settings at ``key``; empty if there is no section."""
        values: Any = self.values
        for part in key:
            values = values.get(part) if isinstance(values, dict) else None
        return values if isinstance(values, dict) else {}

    def texts(self) -> Iterator[tuple[Key, str]]:
        """Yield every string value with its key."""
        waiting: list[tuple[Key, Any]] = [((), self.values)]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, str):
                yield key, value
            elif isinstance(value, dict):
                waiting += [((*key, str(name)), inner) for name, inner in value.items()]
            elif isinstance(value, list):
                waiting += [((*key, str(index)), inner) for index, inner in enumerate(value)]

    def rename(self, section: Key, old: str, new: str) -> None:
        """Rename a setting of ``section``, with everything below it."""
        values, former = self.section(section), (*section, old)
        values[new] = values.pop(old)
        for key in [each for each in self.places if each[: len(former)] == former]:
            self.set_place((*section, new, *key[len(former) :]), self.places.pop(key))


class _TooMuch(Exception):  # noqa: N818 - ends the walk through the file; never leaves this module
    """The file exceeds a limit."""


def read_document(path: Path | None, environment: Mapping[str, str]) -> Document:
    """Read the file, if there is one, then override single keys from the environment."""
    document = Document()
    if path is not None:
        _read_file(path, document)
    _read_environment(environment, document)
    return document


def _read_file(path: Path, document: Document) -> None:
    document.places[()] = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        hint = "name a readable file with --config"
        document.problems.append(Problem(str(path), "", None, f"cannot be read: {error.strerror}", hint))
        return
    if len(content) > FILE_BYTES_MAX:
        document.problems.append(Problem(str(path), "", None, f"must have at most {FILE_BYTES_MAX} bytes"))
        return
    try:
        root = yaml.compose(content.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        document.problems.append(Problem(str(path), "", None, "must be UTF-8 text"))
    except yaml.YAMLError as error:
        document.problems.append(_syntax_problem(path, error))
    except RecursionError:
        document.problems.append(Problem(str(path), "", None, f"must not be nested deeper than {DEPTH_MAX}"))
    else:
        _take_root(path, root, document)


def _syntax_problem(path: Path, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    place = f"{path}:{mark.line + 1}" if mark else str(path)
    return Problem(place, "", None, f"invalid YAML: {getattr(error, 'problem', None) or error}")


def _take_root(path: Path, root: yaml.Node | None, document: Document) -> None:
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        document.problems.append(Problem(f"{path}:1", "", None, "must be a mapping of sections"))
        return
    try:
        document.values = _mapping(str(path), root, (), document)
    except _TooMuch as error:
        document.problems.append(Problem(str(path), "", None, str(error)))


def _mapping(path: str, node: yaml.MappingNode, above: Key, document: Document) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = f"{path}:{key_node.start_mark.line + 1}"
        name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        key = (*above, name)
        if name in values:
            document.problems.append(Problem(place, ".".join(key), None, "is given twice"))
        document.set_place(key, place)
        values[name] = _value(path, value_node, key, document)
    return values


def _value(path: str, node: yaml.Node, key: Key, document: Document) -> Any:
    document.nodes += 1
    if document.nodes > NODES_MAX:
        raise _TooMuch(f"must have at most {NODES_MAX} values")
    if len(key) > DEPTH_MAX:
        raise _TooMuch(f"must not be nested deeper than {DEPTH_MAX}")
    if isinstance(node, yaml.MappingNode):
        return _mapping(path, node, key, document)
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item, (*key, str(index)), document) for index, item in enumerate(node.value)]
    return _scalar(node, key, document)


def _scalar(node: yaml.Node, key: Key, document: Document) -> Any:
    constructor = yaml.constructor.SafeConstructor()
    try:
        return constructor.construct_object(node)
    except (
        yaml.YAMLError,
        ValueError,
        AttributeError,
    ) as error:  # the library trips over wrong explicit tags
        document.problems.append(
            Problem(document.place(key), ".".join(key), None, f"cannot be read: {error}")
        )
        return None


def _read_environment(environment: Mapping[str, str], document: Document) -> None:
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX):
            _override(name, environment[name], document)


def _override(name: str, text: str, document: Document) -> None:
    key = tuple(part.lower() for part in name[len(ENV_PREFIX) :].split("__"))
    if not all(key):
        document.problems.append(
            Problem(name, ".".join(key), None, f"must have the form {ENV_PREFIX}SECTION__KEY")
        )
        return
    inner = document.values
    for part in key[:-1]:
        below = inner.get(part)
        if not isinstance(below, dict):
            below = inner[part] = {}
        inner = below
    inner[key[-1]] = text
    document.set_place(key, name)


def problem_of_error(place: str, key: str, error: TidelineError, value: str | None = None) -> Problem:
    """Return the problem for a live check that failed with ``error``.

    It contains the message, the answer of the server or the network, and the hint. ``value`` defaults to the
    address in the error.
    """
    subject = value or error.context.get("address") or error.context.get("uri")
    reason = error.message
    if detail := error.context.get("addresses") or error.context.get("reason"):
        reason += f": {value_text(detail)}"
    hint = error.hint.rstrip(".")
    return Problem(
        place, key, None if subject is None else str(subject), reason, f"{hint[:1].lower()}{hint[1:]}"
    )
