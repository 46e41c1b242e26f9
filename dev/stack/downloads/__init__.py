"""Pinned artifacts: jars from a Maven repository, packages from an npm registry, and the locks that pin them.

The project contains no address of a registry: each module finds the repository for which the machine is
configured. A download is stored under its final name only after its checksum has been verified.
"""
