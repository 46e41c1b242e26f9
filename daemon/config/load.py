"""Reads the configuration from file and environment into a ``Config``, or reports all problems together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from daemon.config.crosscheck import cross_problems
from daemon.config.document import Document, Key, Problem, read_document
from daemon.config.quantities import example_of, unit_of
from daemon.config.section import section_of
from daemon.process.docs_address import use_site
from daemon.process.redaction import holds_secret, mask_forms, names_secret, use_secrets
from handlers.metastore.addresses import Address, merge_logins, use_logins
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from daemon.config.model import Config
    from handlers.metastore.addresses import Login


DEFAULT_PATHS: Final = (Path("tideline.yaml"), Path("/etc/tideline/tideline.yaml"))
VALUE_CHARACTERS_MAX: Final = 100
KEY_CHARACTERS_MAX: Final = 100
SUGGESTIONS_MAX: Final = 100
"""Maximum number of unknown settings with a suggestion: each takes a millisecond, and a file of another
program has thousands.
"""

_UNSHOWN_TYPES: Final = {"missing", "extra_forbidden"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of reading: the configuration with its warnings, or None with the problems."""

    config: Config | None
    problems: tuple[Problem, ...]
    places: Mapping[Key, str]
    """The origin of each set value: ``file:line``, or the name of an environment variable."""


def find_file(path: Path | None) -> Path | None:
    """Return the given path, or the first default path that exists."""
    return path or next((default for default in DEFAULT_PATHS if default.is_file()), None)


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """Reads configurations of one class, which holds the sections of all capabilities, and checks them."""

    model: type[Config]
    cross_checks: Sequence[Callable[[Document], Iterable[Problem]]] = (cross_problems,)
    """Rules between settings: those of the shared sections and of each capability."""

    def read(self, path: Path | None, environment: Mapping[str, str] | None = None) -> Loaded:
        """Read the configuration, and check all of it that needs no network."""
        document = read_document(path, os.environ if environment is None else environment)
        problems = list(_rename_settings(document, self.model))
        config, invalid = self._validate(document)
        crossed = [problem for check in self.cross_checks for problem in check(document)]
        found = {*document.problems, *problems, *invalid, *crossed}
        inline = _inline_secrets(document, {problem.key for problem in found})
        all_problems = sorted({*found, *inline}, key=Problem.order)
        fatal = any(not problem.warning for problem in all_problems)
        return Loaded(None if fatal else config, tuple(all_problems), document.places)

    def load(self, path: Path | None, environment: Mapping[str, str] | None = None) -> Config:
        """Return the configuration; connections use its logins from now on.

        Raises ConfigError with the first problem and the number of the others.
        """
        loaded = self.read(path, environment)
        if loaded.config is not None:
            use_secrets(loaded.config.secrets())
            use_site(loaded.config.docs.url)
            use_logins_of(loaded.config)
            return loaded.config
        first, *more_problems = (problem for problem in loaded.problems if not problem.warning)
        others = len(more_problems)
        more = f"; {others} more problem{'s' if others > 1 else ''}" if others else ""
        hints = [f"{first.hint[0].upper()}{first.hint[1:]}."] if first.hint else []
        if others or not hints:
            hints.append("Run 'tideline config check' to see every problem at once.")
        raise ConfigError(
            f"the configuration is invalid{more}",
            hint=" ".join(hints),
            place=first.place,
            key=first.key or None,
            value=first.value,
            reason=first.reason,
        )

    def _validate(self, document: Document) -> tuple[Config | None, list[Problem]]:
        try:
            return self.model.model_validate(document.values), []
        except ValidationError as error:
            details = error.errors(include_url=False)
            return None, [
                _problem(document, self.model, detail, suggests=index < SUGGESTIONS_MAX)
                for index, detail in enumerate(details)
            ]


def _rename_settings(document: Document, section: type[BaseModel], key: Key = ()) -> Iterator[Problem]:
    """Rename settings with former names in a section and those below it; yield a warning for each."""
    values = document.section(key)
    for old, new in getattr(section, "renamed", {}).items():
        if old not in values:
            continue
        place, name = document.place((*key, old)), ".".join((*key, old))
        if new in values:
            yield Problem(place, name, None, f"is the former name of {new!r}, which is also set", "remove it")
            del values[old]  # or another problem would report it as unknown
        else:
            yield Problem(place, name, None, f"was renamed to {new!r}", "use the new name", warning=True)
            document.rename(key, old, new)
    for name, field in section.model_fields.items():
        inner, named = section_of(field.annotation, field.metadata)
        if inner is not None:
            below = [(name, entry) for entry in document.section((*key, name))] if named else [(name,)]
            for each in below:
                yield from _rename_settings(document, inner, (*key, *each))


def _inline_secrets(document: Document, reported: Container[str]) -> Iterator[Problem]:
    """Yield a problem for each text of the document that contains a secret, such as a password in an
    address.
    """
    for key, value in document.texts():
        name = ".".join(key)
        if name not in reported and holds_secret(value):
            yield Problem(
                document.place(key),
                name,
                None,
                "must not contain a secret",
                "put the secret into a file or a variable, and name it as {file: PATH} or {env: NAME} in "
                "'secrets' or 'password' of the same section",
            )


def _problem(document: Document, model: type[Config], detail: ErrorDetails, *, suggests: bool) -> Problem:
    key = _key(document.values, detail["loc"])
    reason, hint = _reason(detail, model if suggests else None, key)
    return Problem(document.place(key), ".".join(key), _shown(key, detail), reason, hint)


def _key(values: dict[str, Any], location: tuple[int | str, ...]) -> Key:
    """Return the part of ``location`` that exists in the document.

    Pydantic adds the branches of unions and the keys of mappings.
    """
    key: list[str] = []
    inner: Any = values
    for part in location:
        if isinstance(inner, dict) and str(part) in inner:
            inner = inner[str(part)]
        elif isinstance(inner, list) and isinstance(part, int) and part < len(inner):
            inner = inner[part]
        elif isinstance(inner, dict) and part == location[-1] and part != "[key]":
            inner = None
        else:
            continue
        key.append(str(part))
    return tuple(key)


def _reason(detail: ErrorDetails, model: type[Config] | None, key: Key) -> tuple[str, str]:
    """Return the reason of a problem, and a hint if there is one. Without ``model``, the hint suggests no
    setting.
    """
    match detail["type"]:
        case "missing":
            return "is missing", ""
        case "extra_forbidden":
            return "unknown setting", _suggestion(model, key)
        case "setting":
            return str(detail["ctx"]["message"]), ""
        case "int_parsing" | "float_parsing" if key and (unit := unit_of(key[-1])) is not None:
            return f"must be a number, or a {example_of(unit)}", ""
    message = detail["msg"].removeprefix("Input should be ")
    if message != detail["msg"]:
        return f"must be {message}", ""
    return message[0].lower() + message[1:], ""


def _suggestion(model: type[Config] | None, key: Key) -> str:
    """Return a hint for an unknown setting: a similar setting, or how to list all settings."""
    known = [] if model is None else _known_keys(model, key[:-1])
    close = get_close_matches(key[-1][:KEY_CHARACTERS_MAX], known, n=1)
    return f"did you mean {close[0]!r}?" if close else "run 'tideline config schema' to list all settings"


def _known_keys(model: type[BaseModel], path: Key) -> list[str]:
    """Return the settings of the section at ``path``.

    In a section with named entries, the name of an entry stands between the section and its settings.
    """
    if not path:
        return list(model.model_fields)
    field = model.model_fields.get(path[0])
    inner, named = (None, False) if field is None else section_of(field.annotation, field.metadata)
    return [] if inner is None else _known_keys(inner, path[2 if named else 1 :])


def _shown(key: Key, detail: ErrorDetails) -> str | None:
    """Return the value to show; None if it may be a secret, such as the value of a misspelled key."""
    if detail["type"] in _UNSHOWN_TYPES or any(part == "secrets" or names_secret(part) for part in key):
        return None
    value = detail["input"]
    if isinstance(value, dict | list):
        return None
    text = mask_forms(str(value))  # an address may hold a password, allowed or not
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"


def use_logins_of(config: Config) -> None:
    """Let connections log in as ``config`` says, in the whole process.

    Raises ConfigError if two clusters have different logins for one server.
    """
    logins: dict[str, dict[tuple[str, int], Login | None]] = {}
    for kind, clusters in (("sources", config.sources), ("targets", config.targets)):
        for name, cluster in clusters.items():
            login = None if cluster.auth is None else cluster.auth.login()
            addresses = [Address.parse(uri) for uri in cluster.metastore]
            logins[f"{kind}.{name}"] = {(address.host, address.port): login for address in addresses}
    use_logins(merge_logins(logins))
