"""Renders templates: autoescaped, without undefined values, and with the product's texts of numbers.

It also escapes control characters in texts from other systems: a name with a mark of writing direction could
change the meaning of a page.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Final

import orjson
from markupsafe import Markup

from daemon.terminal.layout import (
    bytes_text,
    duration_text,
    hour_text,
    id_text,
    moment_text,
    number_text,
)
from state.value_text import count_text, value_text


if TYPE_CHECKING:
    from jinja2 import Environment


STATIC: Final = "/static"
TONES: Final = {
    "following": "good",
    "running": "good",
    "accepted": "good",
    "done": "good",
    "succeeded": "good",
    "idle": "good",
    "complete": "good",
    "live": "good",
    "starting": "busy",
    "loading": "busy",
    "waiting": "busy",
    "catching-up": "busy",
    "copying": "busy",
    "working": "busy",
    "queued": "busy",
    "initiated": "busy",
    "behind": "warn",
    "backing-off": "warn",
    "restarting": "warn",
    "paused": "warn",
    "not-bootstrapped": "warn",
    "stopping": "warn",
    "failed": "bad",
    "stopped": "bad",
    "stuck": "bad",
    "quarantined": "bad",
    "differs": "bad",
    "warning": "warn",
    "error": "bad",
    "critical": "bad",
}
"""The colour of a state. Others, such as ``promoted`` and ``elsewhere``, have none."""


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of these values."""
    return _environment().get_template(template).render(values)


def static_files() -> Traversable:
    """Return the directory of styles and scripts."""
    return files(__package__) / "static"


@cache
def static_path(name: str) -> str:
    """Return the path of a style or script. It depends on the content, so browsers may cache the file."""
    digest = hashlib.sha256((static_files() / name).read_bytes()).hexdigest()[:12]
    return f"{STATIC}/{name}?{digest}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 4 MB, for the first page that is read

    environment = Environment(
        loader=PackageLoader("daemon.site"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_controls,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "json": lambda value: orjson.dumps(value).decode(),
        "hour": hour_text,
        "percent": percent_text,
        "size": bytes_text,
        "number": number_text,
        "id": id_text,
        "count": count_text,
        "values": value_text,
        "duration": duration_text,
        "moment": moment_text,
        "tone": lambda state: TONES.get(state, "idle"),
        "words": lambda name: name.replace("-", " ").capitalize(),
    }
    environment.globals |= {"static": static_path, "style": _style}
    return environment


def _escape_controls(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in value)


def percent_text(share: float) -> str:
    """Return a fraction as a percentage such as ``42 %`` or ``0.31 %``."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def _style() -> Markup:
    """Return the text of the site's style, for a page that is a single file."""
    return Markup((static_files() / "site.css").read_text())  # noqa: S704 - our own file
