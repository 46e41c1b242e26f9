"""The effect of an action of the API, in words: a page asks with it before sending the action."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from daemon.status.action_calls import ActionCall


_TEXTS: Final = {
    "pause": (
        "Events of policy {name} are not applied until you resume it. Readers of the target continue to see "
        "its present state."
    ),
    "resume": "Policy {name} continues from its position. It skips no event.",
    "release": (
        "{what} is followed again. If its missed events can still be read, they are applied; otherwise "
        "it is loaded again, and its files are copied. Other tables continue."
    ),
    "load": "{what} is loaded again from the source, and its files are copied. Other tables continue.",
    "compact": "The target compacts {what} again. Readers see the same rows in the meantime.",
    "promote": (
        "Writers may use the target database of policy {name}. The replication ends after a whole event, and "
        "cannot be resumed. Transactions that are open are aborted."
    ),
    "replay": (
        "Dead letter {name} is decoded again with this version. If its format has no event ids, it is "
        "written to its topic again. Otherwise load the table that it names again."
    ),
    "cross-gap": (
        "{name} continues after the lost events. Tables that may have changed in between are loaded again, "
        "and their files are copied."
    ),
}


def describe_consequence(action: ActionCall) -> str:
    """Return the effect."""
    *_, name, verb = map(unquote, action.path.split("/"))
    tables = action.body.get("tables") or [action.body.get("table", "the table")]
    text = _TEXTS.get(verb, "The daemon runs the action '{verb}' for {name}.")
    return text.format(name=name, verb=verb, what=f"{', '.join(tables)} of policy {name}")
