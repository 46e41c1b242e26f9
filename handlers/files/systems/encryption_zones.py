"""Encryption zones of HDFS: encrypted files, and the meaning of the key server's errors.

The client decrypts and encrypts if it knows the key server; without one, and in versions that cannot decrypt,
it refuses to open the file. It never returns stored bytes. But the checksum that Hive records for an
encrypted file is that of its stored bytes, so the bytes that a client reads never have it. Whether a file is
encrypted is not in the client's file status. It shows when a second client, which has no key server, opens
the file: that costs one call to the NameNode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from handlers.files.paths import Location, printable
from handlers.files.systems.hadoop_settings import find_configuration, read_hadoop_settings
from state.errors import FilesUnavailable


PROVIDER: Final = "hadoop.security.key.provider.path"
OLD_PROVIDER: Final = "dfs.encryption.key.provider.uri"
"""The earlier name of the setting, which the client does not know."""
_NO_PROVIDER: Final = "encryption zone but no KMS"
_TOO_OLD: Final = re.compile(r"^File encryption$|UnknownCryptoProtocolVersion")
_KEY_SERVER: Final = re.compile(r"\bKMS\b")


def find_provider(settings: Mapping[str, str], directory: Path | None) -> str:
    """Return the address of the key server in the settings,
    or else in Hadoop's files; empty if there is none.
    """
    directory = directory or find_configuration()
    files = read_hadoop_settings(directory) if directory is not None else {}
    names = (PROVIDER, OLD_PROVIDER)
    return next((source[name] for source in (settings, files) for name in names if source.get(name)), "")


def is_encrypted(blind: Any, location: Location) -> bool:
    """Return whether a file is encrypted; raise the client's error if the file fails to open for another
    reason.

    ``blind`` is a client without key server. The answer is not cached, because a directory may become a zone
    once it is empty.
    """
    try:
        blind.read(location.path).close()
    except RuntimeError as error:
        if find_zone_error(error, location) is None:
            raise
        return True
    return False


def find_zone_error(error: Exception, location: Location) -> FilesUnavailable | None:
    """Return the error of Tideline's tree for an error that concerns encryption; None for any other."""
    text, path = str(error), printable(str(location))
    if _NO_PROVIDER in text:
        return FilesUnavailable(
            "the file is in an encryption zone, and no key server is configured",
            path=path,
            hint=f"Set {PROVIDER} in core-site.xml or in files.options.hdfs.",
        )
    if _TOO_OLD.search(text):
        return FilesUnavailable(
            "the file is in an encryption zone, and this version of hdfs-native cannot decrypt",
            path=path,
            hint="Install the version of hdfs-native that Tideline requires, on executors of copy jobs as "
            "well.",
        )
    if _KEY_SERVER.search(text):
        return FilesUnavailable(
            "the key server of the encryption zone failed",
            path=path,
            reason=printable(text[:300]),
            hint=f"Check {PROVIDER}, the key server, and its access lists; Tideline tries again.",
        )
    return None
