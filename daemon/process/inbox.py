"""Asking a running daemon to do something: a file in a directory that only its user can write to.

HTTP is read-only, and stays so: whoever can reach the port can look and nothing else. Who may change something is decided by
the file system instead: the directory lies in the state directory (0700). A request is one JSON file that appears whole (by
rename); the loop that it is for takes it between two batches, does it and leaves the answer beside it. A request that was being
done when the daemon died is done again: all of them may be repeated.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from state.errors import BadInput, ConfigError, Refused, TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


REQUEST_BYTES_MAX: Final = 64 * 1024
KEPT_S: Final = 600.0
"""How long an answer that nobody has fetched is kept."""
_POLL_S: Final = 0.05
Request = dict[str, Any]


class Inbox:
    """The daemon's end; used by one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self) -> None:
        """Make the directory; raises ConfigError where that cannot be."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                "the directory of requests cannot be made",
                hint="Give the daemon's user the right to write into state.dir.",
                key="state.dir",
                value=str(self._directory),
            ) from error

    def serve(self, do: Callable[[Request], Request]) -> int:
        """Do what was asked, in order of arrival; return how much. A request's own failure is its answer."""
        waiting = sorted(self._directory.glob("*.request"), key=_age)
        for path in waiting:
            self._answer(path, _done(path, do))
        self._forget_old()
        return len(waiting)

    def _answer(self, path: Path, answer: Request) -> None:
        draft = path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps(answer, default=str))
        draft.replace(path.with_suffix(".answer"))
        path.unlink(missing_ok=True)

    def _forget_old(self) -> None:
        for path in self._directory.glob("*.answer"):
            if time.time() - _age(path) > KEPT_S:
                path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _done(path: Path, do: Callable[[Request], Request]) -> Request:
    try:
        return {"result": do(_read(path))}
    except TidelineError as error:
        return {"error": failure(error)}


def _read(path: Path) -> Request:
    try:
        if path.stat().st_size > REQUEST_BYTES_MAX:
            raise BadInput("the request is too long", limit_bytes=REQUEST_BYTES_MAX)
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise BadInput("the request cannot be read", reason=str(error)) from error
    if not isinstance(found, dict):
        raise BadInput("the request is no JSON object")
    return found


def ask(directory: Path, request: Request, timeout_s: float) -> Request:
    """Ask the daemon whose directory this is and return its answer; raises its error, Transient where none comes in time."""
    path = directory / f"{uuid.uuid4().hex}.request"
    draft = path.with_suffix(".new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, so that the mode is right from the start
            file.write(orjson.dumps(request))
        draft.replace(path)
    except OSError as error:
        raise Transient(
            "the daemon cannot be asked", directory=str(directory), reason=error.strerror
        ) from error
    return _answered(path, timeout_s)


def _answered(path: Path, timeout_s: float) -> Request:
    answer = path.with_suffix(".answer")
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer.exists():
            found: Request = orjson.loads(answer.read_bytes())
            answer.unlink(missing_ok=True)
            if "error" in found:
                raise remote_error(found["error"])
            result: Request = found["result"]
            return result
        time.sleep(_POLL_S)
    path.unlink(missing_ok=True)
    raise Transient("the daemon has not answered in time", timeout_s=timeout_s, hint="See 'tideline status'.")


def failure(error: TidelineError) -> Request:
    """Return an error as JSON can say it."""
    return {"code": error.code, "message": error.message, "hint": error.hint, "context": error.context}


def remote_error(told: Request) -> TidelineError:
    """Return the error that another process told of, of the class of its code."""
    context = {str(key): value for key, value in dict(told.get("context") or {}).items()}
    kind = _classes(TidelineError).get(str(told.get("code")), Refused)
    made = kind(str(told.get("message")), hint=str(told.get("hint") or ""))
    made.context.update(context)
    return made


def _classes(root: type[TidelineError]) -> dict[str, type[TidelineError]]:
    found = {root.code: root}
    for kind in root.__subclasses__():
        found |= _classes(kind)
    return found
