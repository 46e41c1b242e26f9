"""Describes the effect of an action of the API. A page shows this text before it sends the action."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from daemon.status.action_calls import ActionCall


_TEXTS: Final = {
    "bootstrap": (
        "The daemon creates the replica of policy {name}, and loads its tables while writers of the source "
        "continue. The target database must be empty or missing."
    ),
    "pause": (
        "Policy {name} applies no events, and loads and copies nothing, until you resume it. Readers of the "
        "target continue to see its current state."
    ),
    "resume": "Policy {name} continues from its position. It skips no event.",
    "release": (
        "The daemon follows {what} again. It applies the missed events if it can still read them; otherwise "
        "it loads the table again, and copies its files. Other tables continue."
    ),
    "load": "The daemon loads {what} again from the source, and copies the files. Other tables continue.",
    "compact": "The target compacts {what} again. Readers see the same rows in the meantime.",
    "promote": (
        "Writers may use the target database of policy {name}. The replication ends after a whole event, and "
        "cannot resume. The command aborts open transactions."
    ),
    "retire": (
        "The replication of policy {name} ends, and cannot resume. The replica stays as it is, and the "
        "source keeps no more files for it."
    ),
    "replay": (
        "The daemon decodes dead letter {name} again with this version. If its format has no event ids, it "
        "writes the record to its topic again. Otherwise load the table that it names again."
    ),
    "cross-gap": (
        "Policy {name} continues after the lost events. It loads its tables again, and copies their files."
    ),
    "sources/cross-gap": (
        "The relay of source {name} continues after the lost events. Then each policy of the source stops "
        "there, until you skip them for it as well."
    ),
}


def describe_consequence(action: ActionCall) -> str:
    """Return the effect of an action in words."""
    *_, kind, name, verb = map(unquote, action.path.split("/"))
    tables = action.body.get("tables") or [action.body.get("table", "the table")]
    text = _TEXTS.get(f"{kind}/{verb}") or _TEXTS.get(verb, "The daemon runs the action '{verb}' for {name}.")
    return text.format(name=name, verb=verb, what=f"{', '.join(tables)} of policy {name}")
