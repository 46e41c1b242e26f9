"""A client of Kubernetes' API for tests: objects as JSON, with the token of an administrator or of a service
account."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dev.stack.servers.kubernetes import ApiServer


TIMEOUT_S: Final = 30.0
MERGE: Final = "application/merge-patch+json"
GROUPS: Final = {
    "ConfigMap": "api/v1",
    "Namespace": "api/v1",
    "Pod": "api/v1",
    "Secret": "api/v1",
    "Service": "api/v1",
    "ServiceAccount": "api/v1",
    "Ingress": "apis/networking.k8s.io/v1",
    "NetworkPolicy": "apis/networking.k8s.io/v1",
    "PodDisruptionBudget": "apis/policy/v1",
    "Role": "apis/rbac.authorization.k8s.io/v1",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1",
    "StatefulSet": "apis/apps/v1",
}
PLURALS: Final = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}


class Refused(Exception):
    """The server refused a request; ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Api:
    """The API of one server, as the owner of one token."""

    url: str
    authority: Path
    token: str
    namespace: str

    @classmethod
    def of_administrator(cls, server: ApiServer, namespace: str) -> Api:
        """Return the API for an administrator."""
        return cls(server.url, server.authority, server.token, namespace)

    def as_service_account(self, name: str) -> Api:
        """Return the API for a service account, with a new token of it."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = self._call("POST", f"{self._path('ServiceAccount')}/{name}/token", request)
        return Api(self.url, self.authority, made["status"]["token"], self.namespace)

    def create(self, resource: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; with ``dry_run`` the server does everything except storing it."""
        path = self._path(resource["kind"], resource["metadata"].get("namespace"))
        return self._call("POST", path + ("?dryRun=All" if dry_run else ""), resource)

    def replace(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object by another of its kind and name."""
        path = self._path(resource["kind"], resource["metadata"].get("namespace"))
        return self._call("PUT", f"{path}/{resource['metadata']['name']}", resource)

    def in_namespace(self, namespace: str) -> Api:
        """Return the same API for objects of another namespace."""
        return replace(self, namespace=namespace)

    def read(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object."""
        return self._call("GET", f"{self._path(kind)}/{name}")

    def items(self, kind: str, selector: str = "", namespace: str | None = None) -> list[dict[str, Any]]:
        """Return all objects of a kind that have the labels ``selector``."""
        found = self._call("GET", f"{self._path(kind, namespace)}?labelSelector={selector}")
        return list(found["items"])

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self._call("DELETE", f"{self._path(kind)}/{name}")

    def set_status(self, kind: str, name: str, status: Mapping[str, Any]) -> None:
        """Report the status of an object, as its controller does."""
        self._call("PATCH", f"{self._path(kind)}/{name}/status", {"status": status}, MERGE)

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a request for any path."""
        return self._call("GET", path)

    def _path(self, kind: str, namespace: str | None = None) -> str:
        if kind == "Namespace":
            return "api/v1/namespaces"
        plural = PLURALS.get(kind, f"{kind.lower()}s")
        return f"{GROUPS[kind]}/namespaces/{namespace or self.namespace}/{plural}"

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - a fixed scheme
            f"{self.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
        )
        trusted = ssl.create_default_context(cafile=self.authority)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trusted) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode(errors="replace")[:1_000]) from None
