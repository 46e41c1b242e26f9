"""Puts the parts together, and gives the process its life: the only room of the daemon that knows all others.

``run_daemon`` locks the state directory, builds a relay or a watch per source and a projection per policy, supervises them,
serves HTTP and drains at SIGTERM. ``replicas.build_replication`` is the one place that knows how a policy becomes a projection.
"""

from __future__ import annotations

from daemon.service.lifecycle import run_daemon


__all__ = ["run_daemon"]
