"""Finds the Maven repository to use, without an address in this project.

It looks for it in this order: ``$MAVEN_REPO_URL``; the mirror of *central* in ``~/.m2/settings.xml``; the
default in the super-POM of an installed Maven; the default of the ``jgo`` wheel (a Maven client in Python, in
the dependency group ``stack``). The last one serves a machine that has only Python.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

from dev.stack.errors import Missing


def find_repository() -> str:
    """Return the root of a Maven 2 repository, without a trailing slash.

    Raises Missing if the machine defines no repository, or one that is not a web address.
    """
    root = (
        os.environ.get("MAVEN_REPO_URL")
        or _mirror(Path.home() / ".m2" / "settings.xml")
        or _super_pom(shutil.which("mvn"))
        or _from_wheel()
    )
    if not root:
        raise Missing(
            "no Maven repository is configured: set MAVEN_REPO_URL to the root of Maven Central or a mirror"
        )
    if not root.startswith(("https://", "http://")):
        raise Missing(f"MAVEN_REPO_URL must start with https:// or http://, not '{root}'")
    return root.rstrip("/")


def _mirror(settings: Path) -> str | None:
    if not settings.exists():
        return None
    for mirror in ET.parse(settings).iter():  # noqa: S314 (the user's own Maven settings)
        if mirror.tag.rpartition("}")[2] != "mirror":
            continue
        values = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in mirror}
        covers = set(values.get("mirrorOf", "").split(","))
        if covers & {"*", "central", "external:*"} and values.get("url"):
            return values["url"]
    return None


def _super_pom(maven: str | None) -> str | None:
    if maven is None:
        return None
    home = Path(maven).resolve().parent.parent
    for jar in sorted((home / "lib").glob("maven-model-builder*.jar")):
        with zipfile.ZipFile(jar) as archive:
            pom = archive.read("org/apache/maven/model/pom-4.0.0.xml").decode()
        if found := re.search(r"<url>\s*(https?://[^<\s]+)", pom):
            return found[1]
    return None


def _from_wheel() -> str | None:
    try:
        found = importlib.import_module("jgo.constants").MAVEN_CENTRAL_URL
    except (ImportError, AttributeError):
        return None
    return str(found)
