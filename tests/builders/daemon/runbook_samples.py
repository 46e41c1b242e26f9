"""``python -m tests.builders.daemon.runbook_samples`` writes the samples into the sections of docs/runbooks:
what an operator sees in the state that a section describes.

A sample is the entry of ``tideline status`` for a state that needs an operator, or else the message of the
error, the chart's alert with the address of the section, a metric, a line of the log, or the answer to the
command that the section names. They are rendered by the product's own code, so a section cannot show
something that no one sees.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

from daemon.flat.settings import FlatConfig
from daemon.keylog.answers import read_keys
from daemon.keys.text import keys_text
from daemon.partitions.commands import check_text
from daemon.replica.status.unreplicated import UNREPLICATED
from daemon.service.capabilities import all_sections
from daemon.status.actions import list_actions
from daemon.status.metrics import StatusCollector
from daemon.status.model import SourceStatus
from daemon.status.report.text import card_text
from handlers.replication.opening import STATE_LOST
from state import errors
from tests.builders.components.chart import render_chart
from tests.builders.daemon.operator_states import EVERYTHING
from tests.builders.keylog.key_logs import FLAT, RAW, key_request, open_key_log


RUNBOOKS: Final = Path(__file__).parents[3] / "docs" / "runbooks"
BEGIN: Final = "**You see.**"
_SAMPLE: Final = re.compile(r"\*\*You see\.\*\*[^\n]*\n\n```text\n.*?^```\n\n", re.DOTALL | re.MULTILINE)
_LABELS: Final = {
    "service": "tideline",
    "projection": "replication:shop",
    "policy": "shop",
    "source": "lake",
    "target": "dr",
    "flat": "clicks",
    "loop": "serve:lake",
    "endpoint": "lake",
    "reader": "replication:shop",
}
_VALUES: Final = {
    "{{ $value }}": "8",
    "{{ $value | humanize }}": "4",
    "{{ $value | humanize1024 }}": "1.5Gi",
    "{{ $value | humanizeDuration }}": "1h 12m 0s",
    "{{ $value | humanizePercentage }}": "75%",
}
MESSAGES: Final[dict[str, tuple[errors.TidelineError, ...]]] = {
    "daemon.md#the-state-directory-is-locked": (
        errors.StateLocked(
            "another process uses the state directory",
            directory="/var/lib/tideline",
            pid=71,
            host="tideline-0",
        ),
    ),
    "daemon.md#another-system-does-not-answer": (
        errors.MetastoreUnavailable(
            "none of the metastore's addresses can be reached",
            cluster="dr",
            addresses="thrift://target-metastore:9083: connection refused",
        ),
    ),
    "daemon.md#a-login-is-refused": (
        errors.LoginFailed(
            "the metastore refused the login",
            host="source-metastore",
            user="tideline",
            mechanism="PLAIN",
            reason="Error validating the login",
            hint="Check the user, and write the current password into /secrets/metastore.",
        ),
    ),
    "daemon.md#files-cannot-be-read-or-written": (
        errors.FilesUnavailable(
            "the disk of the state file is full; this transaction was not stored",
            path="/var/lib/tideline/replication-shop.db",
            hint="Free space on the state volume; the work then continues from the last position.",
        ),
    ),
    "daemon.md#a-state-file-is-damaged": (
        errors.StateCorrupt("a page of the state file is damaged", path="/var/lib/tideline/catalog-lake.db"),
    ),
}
"""Messages of states that are errors of a command or of a loop."""


def samples() -> dict[str, str]:
    """Return the sample of each section, by page and anchor."""
    found: dict[str, str] = {}
    for address, text in (*_cards(), *_blocks(), *_messages(), *_metrics(), *_answers(), *_alerts()):
        found.setdefault(address, text)
    return found


def _cards() -> Iterator[tuple[str, str]]:
    defects = {loop.name for loop in EVERYTHING.failed_loops if loop.code == "unexpected"}
    for action in list_actions(EVERYTHING, all_sections()):
        if action.object in defects:
            continue
        yield _of_runbook(action.look), f"In `tideline status`:\n{card_text(action, EVERYTHING.time_s)}"


def _blocks() -> Iterator[tuple[str, str]]:
    text = UNREPLICATED.text(UNREPLICATED.of(EVERYTHING), EVERYTHING.time_s)
    yield "replica.md#a-table-or-function-is-not-replicated", f"In `tideline status`:\n{text}"


def _messages() -> Iterator[tuple[str, str]]:
    for address, made in MESSAGES.items():
        yield address, "The message:\n" + "\n".join(map(str, made))


def _metrics() -> Iterator[tuple[str, str]]:
    source = SourceStatus("lake", commits_without_writes=8, unlisted=3)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: replace(EVERYTHING, sources=(source,)), all_sections()))
    lines = generate_latest(registry).decode().splitlines()
    for address, name in (
        ("relay.md#partitions-that-the-relay-cannot-list", "tideline_relay_partitions_unlisted_total"),
        ("relay.md#commits-without-writes", "tideline_relay_commits_without_writes_total"),
    ):
        (line,) = [line for line in lines if line.startswith(f"{name}{{")]
        yield address, f"In the metrics of the daemon (`GET /metrics`):\n{line}"


def _answers() -> Iterator[tuple[str, str]]:
    event = {"policy": "shop", "event_id": 531, "event": STATE_LOST, "level": "warning"}
    yield "daemon.md#loss-of-the-state-directory", f"In the log:\n{json.dumps(event, separators=(',', ':'))}"
    drift = {
        "table": "shop.visits",
        "event_id": 531,
        "source_event_id": 531,
        "drift": 2,
        "moving": False,
        "missing": ["dt=2024-02-01"],
        "missing_count": 1,
        "surplus": [],
        "surplus_count": 0,
        "differing": {"dt=2024-01-31": ["parameters"]},
        "differing_count": 1,
    }
    address = "endpoint.md#the-partition-index-differs-from-the-metastore"
    yield address, f"`tideline partitions check shop.visits` prints:\n{check_text(drift)}"
    address = "flat-tables.md#users-query-a-key-but-it-does-not-become-a-column"
    yield address, f"`tideline keys list web --why` prints:\n{_keys()}"


def _keys() -> str:
    """Return the answer of a key log with two requested keys, of which one has no value yet."""
    requests = [
        key_request("action.name", user="ann", count=4),
        key_request("action.name", user="bob", fingerprint="f2", days_ago=1),
        key_request("debug.trace", user="bob", fingerprint="f3"),
    ]
    flat = FlatConfig.model_validate({"table": FLAT, "raw_table": RAW, "rules": {"skip": ["$.debug.*"]}})
    with (
        tempfile.TemporaryDirectory() as directory,
        open_key_log(f"sqlite:///{directory}/keylog.db") as key_log,
    ):
        key_log.record(requests, source="trino", position=None)
        return keys_text(read_keys(key_log, flat.keyed()), why=True, limit=9)


def _alerts() -> Iterator[tuple[str, str]]:
    values = {"prometheusRule": {"enabled": True}, "replicas": 3}
    (group,) = render_chart(values)["PrometheusRule"]["spec"]["groups"]
    for rule in group["rules"]:
        notes = rule["annotations"]
        summary = re.sub(
            r"{{ \$labels\.(\w+) }}", lambda match: _LABELS.get(match[1], match[1]), notes["summary"]
        )
        for form, value in _VALUES.items():
            summary = summary.replace(form, value)
        text = f"The alert:\n{rule['alert']} ({rule['labels']['severity']}): {summary}"
        yield _of_runbook(notes["runbook_url"]), text


def _of_runbook(address: str) -> str:
    return address.rpartition("docs/runbooks/")[2]


def with_samples(name: str, page: str) -> str:
    """Return a page with the sample of each of its sections after the first paragraph."""
    found = samples()
    head, *sections = re.split(r"(?m)^(?=## )", _SAMPLE.sub("", page))
    return head + "".join(_with_sample(found, name, section) for section in sections)


def _with_sample(found: dict[str, str], name: str, section: str) -> str:
    heading, meaning, *rest = section.split("\n\n", 2)
    anchor = re.sub(r"[^a-z0-9 -]", "", heading.removeprefix("## ").lower()).replace(" ", "-")
    sample = found.get(f"{name}#{anchor}")
    if sample is None:
        return section
    where, _, text = sample.partition("\n")
    return "\n\n".join([heading, meaning, f"{BEGIN} {where}", f"```text\n{text}\n```", *rest])


def main() -> None:
    """Write all pages."""
    for page in sorted(RUNBOOKS.glob("*.md")):
        page.write_text(with_samples(page.name, page.read_text()))


if __name__ == "__main__":
    main()
