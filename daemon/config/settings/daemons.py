"""Divides the policies over several daemons with the same configuration.

Each policy belongs to the daemon with the highest hash of its number and the policy's name (rendezvous
hashing). Every daemon computes the owner of every policy without a call to another one. If the number of
daemons grows by one, only the policies of the new daemon move.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Self

from pydantic import Field, model_validator

from daemon.config.section import Section, refused


DAEMONS_MAX = 64


class DaemonsConfig(Section):
    """The daemons that share the policies, and which of them this one is."""

    count: int = Field(
        default=1,
        ge=1,
        le=DAEMONS_MAX,
        description="Daemons that share the policies. All use the same configuration, and each has its own "
        "ordinal and state directory.",
    )
    ordinal: int = Field(
        default=0,
        ge=0,
        lt=DAEMONS_MAX,
        description="Number of this daemon, from 0. Each daemon follows its share of the policies. Daemon 0 "
        "also runs everything else: relays, catalogs, flat tables, endpoints.",
    )

    @model_validator(mode="after")
    def _require_member(self) -> Self:
        if self.ordinal >= self.count:
            raise refused(f"ordinal = {self.ordinal}: must be below count = {self.count}")
        return self

    def owner_of(self, policy: str) -> int:
        """Return the ordinal of the daemon that follows a policy."""
        return max(range(self.count), key=lambda ordinal: _weight(ordinal, policy))

    def owns(self, policy: str) -> bool:
        """Whether this daemon follows a policy."""
        return self.owner_of(policy) == self.ordinal


def _weight(ordinal: int, policy: str) -> bytes:
    return blake2b(f"{ordinal}/{policy}".encode(), digest_size=8).digest()
