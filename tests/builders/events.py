"""Recorded notifications, and how tests pack, change and compare them.

``tests/data/events/<TYPE>.json`` holds one notification of each type as a Hive 4.2 metastore logged it (host names and paths
shortened; the message as an object), the write events of a commit, and the event that it has to become.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

from handlers.events import Embedded, Event
from handlers.structs.notifications import NotificationEvent, WriteEventInfo


DATA = Path(__file__).parent.parent / "data" / "events"
KINDS = tuple(sorted(path.stem for path in DATA.glob("*.json")))


def recorded(kind: str) -> dict[str, Any]:
    """The recorded file of one type: ``notification``, ``writes`` (None except for commits) and ``event``."""
    value: dict[str, Any] = json.loads((DATA / f"{kind}.json").read_text())
    return value


def message_of(kind: str) -> dict[str, Any]:
    value: dict[str, Any] = recorded(kind)["notification"]["message"]
    return value


def gzipped(text: str | bytes) -> str:
    """A message text in the encoding ``gzip(json-2.0)``."""
    data = text.encode() if isinstance(text, str) else text
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def notification(
    kind: str, *, form: str | None = "gzip(json-2.0)", text: str | None = None, **changed: Any
) -> NotificationEvent:
    """The recorded notification as the metastore would answer it; ``changed`` are fields of its message.

    ``text`` replaces the whole message (before it is packed).
    """
    fields = recorded(kind)["notification"]
    plain = json.dumps(fields["message"] | changed) if text is None else text
    packed = gzipped(plain) if form is None or form.startswith("gzip") else plain
    return NotificationEvent(**(fields | {"message": packed, "messageFormat": form}))


def write_events(kind: str) -> list[WriteEventInfo] | None:
    writes = recorded(kind).get("writes")
    return None if writes is None else [WriteEventInfo(**fields) for fields in writes]


def plain(event: Event) -> dict[str, Any]:
    """An event as JSON can say it, embedded objects decoded: what the recorded files compare with."""
    fields = {f.name: _plain(getattr(event, f.name)) for f in dataclasses.fields(event)}
    return {"type": type(event).__name__, **fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Embedded):
        return f"{type(value.value).__name__} of {len(value.text)} characters"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Exception):
        return str(value)
    return value
