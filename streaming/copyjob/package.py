"""The code that executors need, as an archive that the driver sends to them, so that both sides always run the same version."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final


ROOT: Final = Path(__file__).parents[2]
"""The directory that contains the packages."""
PARTS: Final = ("state", "handlers", "streaming/__init__.py", "streaming/copyjob")


def write_package(path: Path) -> Path:
    """Write the archive to ``path`` and return it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in PARTS:
            found = ROOT / part
            for file in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
                archive.write(file, file.relative_to(ROOT))
    return path
