"""Opens the configured key log, and returns its address."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from daemon.keylog.settings import KEYLOG
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import SecretStr

    from daemon.config.model import Config
    from streaming.keylog.log import KeyLog


def key_log_url(config: Config) -> str:
    """Return the address of the key log, without its password."""
    return KEYLOG.of(config).url or f"sqlite:///{config.state.dir}/keylog.db"


def key_log_address(config: Config) -> SecretStr:
    """Return the address with its password, for a Spark driver. Raises ConfigError like ``open_key_log``."""
    from pydantic import SecretStr

    with _report_missing_packages():
        from streaming.keylog.database import parse_address
    url = parse_address(key_log_url(config), _password(config))
    return SecretStr(url.render_as_string(hide_password=False))


def open_key_log(config: Config) -> KeyLog:
    """Open the key log and bring its schema up to date; the caller closes it.

    Raises ConfigError if the packages are missing or the address is wrong, and the errors of ``KeyLog.open``.
    """
    with _report_missing_packages():
        from streaming.keylog.log import KeyLog
    return KeyLog.open(key_log_url(config), password=_password(config))


def _password(config: Config) -> str | None:
    password = KEYLOG.of(config).password
    return None if password is None else password.get_secret_value()


@contextmanager
def _report_missing_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            "the key log needs packages that are not installed",
            package=error.name,
            hint="Install them: pip install 'tideline[flat]'.",
        ) from error
