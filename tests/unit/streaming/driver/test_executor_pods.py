from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from streaming.driver.executor_pods import TABLE, PodLabel, _remove_with, label_pods
from streaming.settings import SparkSettings
from tests.builders.flat.streams import SETTINGS


def test_executor_pods_name_their_table_or_policy_and_other_masters_have_none() -> None:
    table = PodLabel.of_table(SETTINGS)
    assert label_pods(SETTINGS.spark, table) is SETTINGS.spark
    spark = SparkSettings("k8s://https://api", conf={"spark.app.name": "x"})
    label = "spark.kubernetes.executor.label"
    named = {f"{label}.tideline-table": SETTINGS.fingerprint, "spark.app.name": "x"}
    assert label_pods(spark, table).conf == named
    assert replace(SETTINGS, table="other").fingerprint != SETTINGS.fingerprint
    ours, theirs = (label_pods(spark, PodLabel.of_policy(name)).conf for name in ("shop é", "other"))
    assert re.fullmatch(r"[0-9a-f]{16}", ours[f"{label}.tideline-policy"])
    assert ours != theirs


@dataclass
class Objects:
    """The objects of one kind that the API server has, or a selection of them, as Kubernetes' Java client
    shows them."""

    labels: dict[str, dict[str, str]]
    phases: dict[str, str] = field(default_factory=dict)
    selected: str = ""

    def withLabel(self, name: str, value: str) -> Objects:  # noqa: N802 - Java's name
        chosen = {each for each, labels in self.labels.items() if labels.get(name) == value}
        return Selection(self, chosen)

    def withName(self, name: str) -> Objects:  # noqa: N802 - Java's name
        return Selection(self, {name})


class Selection(Objects):
    """Some of the objects."""

    def __init__(self, of: Objects, names: set[str]) -> None:
        super().__init__({name: of.labels[name] for name in names}, of.phases)
        self._of = of

    def withLabel(self, name: str, value: str) -> Objects:  # noqa: N802 - Java's name
        found = super().withLabel(name, value)
        return Selection(self._of, set(found.labels))

    def list(self) -> Objects:
        return self

    def getItems(self) -> tuple[Pod, ...]:  # noqa: N802 - Java's name
        return tuple(Pod(name, self.labels[name], self.phases.get(name, "")) for name in sorted(self.labels))

    def delete(self) -> None:
        for name in self.labels:
            del self._of.labels[name]


@dataclass
class Pod:
    """A pod, its metadata and its status in one."""

    name: str
    labels: dict[str, str]
    phase: str

    def __getattr__(self, name: str) -> Any:
        values = {"getName": self.name, "getPhase": self.phase, "getLabels": self.labels}
        return lambda: values.get(name, self)


class Client:
    """A client of a server with these pods (name: application and phase), one configuration map for each
    application."""

    def __init__(self, table: str, **pods: str) -> None:
        found = {name: text.split() for name, text in pods.items()}
        self._pods = Objects(
            {
                name: {TABLE: table, "spark-role": "executor", "spark-app-selector": application}
                for name, (application, _) in found.items()
            },
            {name: phase for name, (_, phase) in found.items()},
        )
        self._maps = Objects(
            {
                application: {"spark-role": "executor", "spark-app-selector": application}
                for application, _ in found.values()
            }
        )

    def pods(self) -> Objects:
        return self._pods

    def configMaps(self) -> Objects:  # noqa: N802 - Java's name
        return self._maps


def test_completed_pods_of_other_applications_are_removed_and_running_ones_stay() -> None:
    client = Client(
        "t",
        own="now Running",
        ended="now Failed",
        first="old Succeeded",
        second="old Failed",
        third="older Failed",
        alive="older Running",
        waiting="oldest Pending",
    )
    assert _remove_with(client, "now", PodLabel(TABLE, "t")) == ["first", "second", "third"]
    assert set(client.pods().labels) == {"own", "ended", "alive", "waiting"}
    assert set(client.configMaps().labels) == {"now", "older", "oldest"}


def test_pods_of_other_tables_stay() -> None:
    client = Client("other", first="old Succeeded")
    assert _remove_with(client, "now", PodLabel(TABLE, "t")) == []
    assert set(client.pods().labels) == {"first"}
