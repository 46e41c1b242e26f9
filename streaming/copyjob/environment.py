"""The part of the driver's environment that executors on other machines get, so that they read and write files as the daemon does.

A machine of a cluster often has no configuration of the daemon's HDFS, or that of another one. Its executors run as another user, such as
``yarn``, and with another umask; files that they created could then be neither replaced by the daemon nor read by Hive.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from handlers.files.systems.hadoop_settings import CONF_DIR, find_configuration, read_hadoop_settings


if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.copyjob.job import JobSettings


ON_EXECUTORS: Final = "spark.executorEnv."
"""Prefix of the settings with which Spark sets environment variables of executors."""
USER: Final = "HADOOP_USER_NAME"
_SCHEMES: Final = ("hdfs", "viewfs")
_DIRECTORY: Final = "config_dir"


def share_environment(settings: JobSettings) -> JobSettings:
    """Return the settings with the driver's HDFS settings, its user of HDFS, and its umask; configured values take precedence.

    Raises ConfigError if Hadoop's configuration cannot be read.
    """
    if settings.spark.master.startswith("local"):
        return settings
    conf = dict(settings.spark.conf)
    options = dict(settings.share.options)
    if ON_EXECUTORS + CONF_DIR not in conf:
        options |= {scheme: _with_hadoop_settings(options.get(scheme, {})) for scheme in _SCHEMES}
    if user := _find_user():
        conf.setdefault(ON_EXECUTORS + USER, user)
    return replace(
        settings,
        share=replace(settings.share, options=options, umask=_read_umask()),
        spark=replace(settings.spark, conf=conf),
    )


def _with_hadoop_settings(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a file system with the settings that its client finds in files here, in place of their directory."""
    given = {name: value for name, value in options.items() if name != _DIRECTORY}
    directory = Path(str(options[_DIRECTORY])) if _DIRECTORY in options else find_configuration()
    return (read_hadoop_settings(directory) if directory else {}) | given


def _find_user() -> str | None:
    """Return the user that an HDFS without Kerberos sees; None if this process's user has no name."""
    try:
        return os.environ.get(USER) or pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


def _read_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
