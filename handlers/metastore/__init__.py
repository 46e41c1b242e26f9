"""The Hive metastore's client: typed calls over one connection. See ``DESIGN.md``."""

from __future__ import annotations

from handlers.metastore.client import Metastore
from handlers.metastore.generations import Generation


__all__ = ["Generation", "Metastore"]
