"""Keys of JSON events as people write them in settings and commands."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from daemon.config.fields import as_list
from daemon.config.section import refused
from state.columns.paths import KeyPath
from state.errors import BadInput


def key_named(text: str) -> KeyPath:
    """Read a key as people write it: ``$.a.b`` or ``a.b``; raise BadInput where it is none."""
    return KeyPath.of_json_path(text) if text.startswith("$") else KeyPath.of_dotted(text)


def _check_key(text: str) -> str:
    try:
        return key_named(text).text
    except BadInput as error:
        raise refused(f"is no key: {error.message}; $.a.b or a.b is wanted") from None


KeyText = Annotated[str, AfterValidator(_check_key)]
Keys = Annotated[list[KeyText], BeforeValidator(as_list)]
