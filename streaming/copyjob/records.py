"""The forms of copies and of their outcomes as JSON, in which they pass from process to process."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import SizedTask
from state.errors import MalformedEvent, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.files.copying.jobs import Outcome


def write_copy(copy: SizedTask) -> dict[str, Any]:
    """Return the JSON form of a copy."""
    task = copy.task
    return {
        "source": asdict(task.source),
        "target": task.target_uri,
        "above": task.above_uri,
        "bytes": copy.size_bytes,
    }


def read_copy(values: Mapping[str, Any]) -> SizedTask:
    """Read the JSON form of a copy; raise MalformedEvent."""
    try:
        task = CopyTask(SourceFile(**values["source"]), values["target"], values["above"])
        return SizedTask(task, int(values["bytes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedEvent("a copy of a job cannot be read", reason=repr(error)) from error


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON form of an outcome."""
    if isinstance(outcome, Copied):
        return {"copied": asdict(outcome)}
    context = {name: value if _is_plain(value) else str(value) for name, value in outcome.context.items()}
    failed = {"code": outcome.code, "message": outcome.message, "hint": outcome.hint, "context": context}
    return {"failed": failed}


def read_outcome(values: Mapping[str, Any]) -> Outcome:
    """Read the JSON form of an outcome; raise MalformedEvent. An error has the class of its code."""
    try:
        if "copied" in values:
            return Copied(**values["copied"])
        failed = values["failed"]
        kind = _kinds(TidelineError).get(failed["code"], Refused)
        error = kind(failed["message"], hint=failed["hint"])
        error.context.update(failed["context"])
    except (KeyError, TypeError) as malformed:
        raise MalformedEvent("an outcome of a job cannot be read", reason=repr(malformed)) from malformed
    return error


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _kinds(root: type[TidelineError]) -> dict[str, type[TidelineError]]:
    found = {root.code: root}
    for kind in root.__subclasses__():
        found |= _kinds(kind)
    return found
