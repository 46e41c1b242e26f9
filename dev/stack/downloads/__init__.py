"""Pinned artifacts: jars from a Maven repository, packages from an npm registry, and the locks that pin them.

No address is written here: each module finds the repository that the machine is configured for. A download is
stored under its final name only after its checksum has been verified.
"""
