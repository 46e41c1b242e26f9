"""The settings of the key log: which database it is in, and for how long it keeps what was asked."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from daemon.config.fields import Secret
from daemon.config.section import Section, refused


_SCHEMES: Final = ("sqlite", "mysql", "mariadb", "postgresql")


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        raise refused("is no address of a database") from None
    if parts.scheme.partition("+")[0] not in _SCHEMES or len(parts.path) < 2:
        raise refused(
            "is no address of a key log: sqlite:///FILE, mysql://USER@HOST/DATABASE, mariadb://… or postgresql://… is wanted"
        )
    if password is not None:
        raise refused("holds a password: it belongs in keylog.password, as {file: PATH} or {env: NAME}")
    return text


KeylogUrl = Annotated[str, AfterValidator(_check_url)]


class KeylogConfig(Section):
    """Where it is recorded who asked for which JSON key (docs/KEYS.md)."""

    url: KeylogUrl | None = Field(
        default=None,
        description="SQLAlchemy's URL of the database, without a password; not given: the file keylog.db in state.dir.",
    )
    password: Secret | None = Field(
        default=None, description="Password of the database's user: {file: PATH} or {env: NAME}."
    )
    retention_days: int = Field(
        default=400,
        ge=1,
        le=36_500,
        description="Questions older than this are deleted; at least every flat table's asked_days.",
    )
