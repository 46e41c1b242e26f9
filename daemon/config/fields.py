"""Kinds of settings: names, addresses, locations, lists, keys and secrets, each with its rule and message.

A message states only the rule, because the output shows it next to the value. The configuration file never
contains secrets: it has ``{file: PATH}`` or ``{env: NAME}``, and the daemon reads their content together with
the configuration.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, WithJsonSchema

from daemon.config.section import matching, refused
from daemon.process.redaction import add_secret, names_secret
from handlers.metastore.addresses import DEFAULT_PORT
from state.columns.paths import KeyPath
from state.errors import BadInput


SECRET_BYTES_MAX: Final = 64 * 1024
BYTES_PER_S_MIN: Final = 1024
"""The lowest limit of copies."""

_Options = dict[str, str | int | float | bool]

_OBJECT_NAME: Final = re.compile(r"[a-z0-9_]{1,128}")


def is_object_name(text: str) -> bool:
    """Whether Hive accepts this as the name of a database."""
    return _OBJECT_NAME.fullmatch(text) is not None


def _check_database_template(text: str) -> str:
    if text.count("{database}") != 1 or not re.fullmatch(r"[a-z0-9_]{0,64}", text.replace("{database}", "")):
        raise refused(
            "must contain {database} once, and otherwise lower-case letters, digits and '_', at most 64 "
            "characters"
        )
    return text


def _check_thrift_uri(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise refused("must have a port from 1 to 65535") from None
    if (
        parts.scheme not in {"thrift", "thrift+tls"}
        or not parts.hostname
        or parts.username
        or parts.path.strip("/")
        or parts.query
    ):
        raise refused(
            "must be a metastore address: thrift://host:port or thrift+tls://host:port (the port defaults "
            f"to {DEFAULT_PORT})"
        )
    address = f"{parts.scheme}://{parts.netloc.rstrip(':')}"
    return address if port else f"{address}:{DEFAULT_PORT}"


def _as_uri(value: object) -> object:
    return f"file://{value}" if isinstance(value, str) and value.startswith("/") else value


def _check_location(text: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme or not parts.path.startswith("/") or ".." in parts.path.split("/"):
        raise refused(
            "must be an absolute URI without '..', such as file:/data, hdfs://nameservice/data or "
            "s3a://bucket/data"
        )
    return text.rstrip("/") if parts.path != "/" else text


def as_list(value: Any) -> Any:
    """Parse a list from an environment variable (``[a, b]`` or ``a,b``); return any other value unchanged."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return _as_flow(value)
    return [item.strip() for item in value.split(",") if item.strip()]


def _as_flow(value: Any) -> Any:
    """Parse a mapping or list from an environment variable; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value


def _read_secret(value: Any) -> Any:
    match _as_flow(value):
        case {"file": str(path), **others} if not others:
            return _secret_file(Path(path))
        case {"env": str(name), **others} if not others:
            return _secret_variable(name)
        case SecretStr():
            return value
    raise refused("must be a reference to a secret, {file: PATH} or {env: NAME}, and never the secret itself")


class FileSecret(SecretStr):
    """A secret in a file. An operator may replace the file while the daemon runs."""

    def __init__(self, value: str, path: Path) -> None:
        super().__init__(value)
        self.path = path

    def read_again(self) -> str:
        """Return the current content, and mask it in output from now on; the first content if it cannot be
        read.
        """
        try:
            present = _secret_file(self.path).get_secret_value()
        except ValueError:
            return self.get_secret_value()
        add_secret(present)
        return present


def _secret_file(path: Path) -> FileSecret:
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        if len(content) > SECRET_BYTES_MAX:
            raise refused(f"must name a file of at most {SECRET_BYTES_MAX} bytes")
        return FileSecret(content.decode().rstrip("\r\n"), path)
    except OSError as error:
        raise refused(f"names a file that cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise refused("must name a file with UTF-8 text") from None


def _secret_variable(name: str) -> SecretStr:
    if name not in os.environ:
        raise refused(f"names the environment variable {name}, which is not set")
    return SecretStr(os.environ[name])


def _refuse_secrets(advice: str) -> AfterValidator:
    """Return a check that refuses settings whose names say that they hold a secret.

    ``advice`` names the right place for a secret.
    """

    def check(options: _Options) -> _Options:
        for key, value in options.items():
            if names_secret(key) and not isinstance(value, bool):
                raise refused(f"must not hold the secret {key!r}: {advice}")
        return options

    return AfterValidator(check)


_SECRET_SCHEMA: Final = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"env": {"type": "string"}},
            "required": ["env"],
            "additionalProperties": False,
        },
    ]
}

Name = Annotated[
    str,
    matching(
        r"(?!.*__)[a-z][a-z0-9_-]{0,62}",
        "must consist of lower-case letters, digits, '-' and single '_', begin with a letter, and "
        "have at most 63 characters",
    ),
]
"""Name of a source, target or policy, for metrics, file names and environment variables, too."""

ObjectName = Annotated[
    str,
    matching(
        r"[a-z0-9_]{1,128}",
        "must be a Hive name: lower-case letters, digits and '_', at most 128 characters (Hive "
        "stores names in lower case)",
    ),
]
"""A database of Hive."""

_DATABASE_PATTERN: Final = matching(
    r"[a-z0-9_*?\[\]!-]{1,256}",
    "must be a database pattern: a lower-case database name with '*', '?' or '[...]', at most 256 characters",
)
DatabasePatterns = Annotated[list[Annotated[str, _DATABASE_PATTERN]], BeforeValidator(as_list)]

DatabaseTemplate = Annotated[str, AfterValidator(_check_database_template)]
"""A name of a database on the target, made of its name at the source."""

_TABLE_PATTERN: Final = matching(
    r"[a-z0-9_*?\[\]!-]{1,256}",
    "must be a table pattern: a lower-case table name with '*', '?' or '[...]', at most 256 characters",
)
TablePatterns = Annotated[list[Annotated[str, _TABLE_PATTERN]], BeforeValidator(as_list)]

TableName = Annotated[
    str, matching(r"[a-z0-9_]{1,128}\.[a-z0-9_]{1,128}", "must be a table: db.table in lower case")
]
"""A table, as db.table."""

_QUALIFIED_PATTERN: Final = matching(
    r"[a-z0-9_*?\[\]!-]{1,128}\.[a-z0-9_*?\[\]!-]{1,128}",
    "must be a pattern of tables: db.table in lower case, with '*', '?' or '[...]'",
)
QualifiedPatterns = Annotated[list[Annotated[str, _QUALIFIED_PATTERN]], BeforeValidator(as_list)]
"""Patterns of tables, as db.table."""

ThriftUris = Annotated[list[Annotated[str, AfterValidator(_check_thrift_uri)]], BeforeValidator(as_list)]
"""Metastores of one cluster, tried in this order."""

Location = Annotated[str, AfterValidator(_check_location)]
Locations = Annotated[list[Location], BeforeValidator(as_list)]
FileLocation = Annotated[str, BeforeValidator(_as_uri), AfterValidator(_check_location)]
"""A location, or an absolute path on the local disk."""

Topic = Annotated[
    str,
    matching(
        r"[a-zA-Z0-9._-]{1,249}",
        "must be a topic name: letters, digits, '.', '_' and '-', at most 249 characters",
    ),
]
Bootstrap = Annotated[
    str, matching(r"[^,\s/]+:\d{1,5}(,[^,\s/]+:\d{1,5})*", "must be a comma-separated list of host:port")
]


def _show_secret(secret: SecretStr) -> str:
    """Return where the secret is, which an operator needs to exchange it; otherwise a mask."""
    return f"file {secret.path}" if isinstance(secret, FileSecret) else str(secret)


Secret = Annotated[
    SecretStr,
    BeforeValidator(_read_secret),
    PlainSerializer(_show_secret, when_used="json"),
    WithJsonSchema(_SECRET_SCHEMA),
]

Options = Annotated[
    _Options,
    BeforeValidator(_as_flow),
    _refuse_secrets("move it to 'secrets', as {file: PATH} or {env: NAME}"),
]
"""Settings passed on to a library under its own names; the same section has ``secrets``."""

SparkOptions = Annotated[
    _Options,
    BeforeValidator(_as_flow),
    _refuse_secrets(
        "pass it through the daemon's environment, such as AWS_SECRET_ACCESS_KEY, or a Hadoop credential "
        "provider"
    ),
]
"""Spark's own settings. They are arguments of a process, which other users of the machine can read, so no
secret is among them."""


def parse_key(text: str) -> KeyPath:
    """Parse a key as users write it, ``$.a.b`` or ``a.b``; raise BadInput for anything else."""
    return KeyPath.of_json_path(text) if text.startswith("$") else KeyPath.of_dotted(text)


def _check_key(text: str) -> str:
    try:
        return parse_key(text).text
    except BadInput as error:
        raise refused(f"must be a key such as $.a.b or a.b: {error.message}") from None


KeyText = Annotated[str, AfterValidator(_check_key)]
Keys = Annotated[list[KeyText], BeforeValidator(as_list)]
