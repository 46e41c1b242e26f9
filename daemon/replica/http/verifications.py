"""Verifications over HTTP: the action that starts one, and the route that returns its progress and its
report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from daemon.http.actions import STRICT, Audit, action_route
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.http.transport.answering import Lane
from daemon.replica.http.routes import POLICY_NAME, Name, not_followed
from daemon.replica.verification.run import Request
from daemon.replica.verification.runs import VerificationRun, VerificationRuns


@dataclass(frozen=True)
class VerifyParameters:
    """The tables to verify, and how."""

    __pydantic_config__ = STRICT
    tables: list[Name] = field(default_factory=list)
    """Empty for all tables and the database."""
    checksums: bool = False
    """Whether to compare the contents of files, too, which reads all of them."""
    repair: bool = False
    """Whether to load differing tables again and verify them once more."""


def verification_routes(
    runs: VerificationRuns, policies: Callable[[], Collection[str]], audit: Audit
) -> Sequence[ApiRoute]:
    """Return the routes, for the policies that this daemon follows."""

    def start(policy: str, given: VerifyParameters) -> dict[str, Any]:
        _require(policy)
        return runs.start(
            Request(policy, tuple(given.tables), checksums=given.checksums, repair=given.repair)
        )

    def read(policy: str, _parameters: Parameters) -> dict[str, Any]:
        _require(policy)
        return runs.read(policy)

    def _require(policy: str) -> None:
        if policy not in policies():
            raise not_followed(policy)

    started = Operation(
        path=f"{BASE}/policies/{{name}}/verify",
        tag="Policies",
        summary="Begin to compare the replica with its source; 'verification' has progress and report.",
        answer=TypeAdapter(VerificationRun),
        name=POLICY_NAME,
        body=TypeAdapter(VerifyParameters),
        begins=True,
    )
    shown = Operation(
        path=f"{BASE}/policies/{{name}}/verification",
        tag="Policies",
        summary="The last verification that 'verify' began, with its progress or its report.",
        answer=TypeAdapter(VerificationRun),
        name=POLICY_NAME,
    )
    return (
        action_route(started, VerifyParameters, start, audit),
        ApiRoute(shown, build_endpoint(Parameters, read, lane=Lane.MEMORY)),
    )
