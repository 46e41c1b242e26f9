"""A Python for executors of copy jobs, as an operator prepares it: the interpreter of this machine, and only
the packages that are needed."""

from __future__ import annotations

import shutil
import sys
import tarfile
import venv
from importlib.metadata import files
from pathlib import Path
from typing import Final


HDFS: Final = ("google-crc32c", "hdfs-native", "typing-extensions")
"""The packages for copies between directories on disk or HDFS, as pip installs them."""
OBJECT_STORE: Final = ("google-crc32c", "pyarrow")
"""The packages for copies between directories on disk or in an object store."""


def make_python(directory: Path, packages: tuple[str, ...] = HDFS) -> Path:
    """Create an environment with these packages of this process's environment; return its interpreter."""
    venv.create(directory, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "lib" / version / "site-packages"
    for package in packages:
        for file in files(package) or ():
            if ".." not in file.parts:
                copy = site / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), copy)
    return directory / "bin" / "python"


def pack_python(directory: Path) -> Path:
    """Pack an environment for ``spark.archives``; return the archive."""
    archive = directory.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(directory, ".")
    return archive
