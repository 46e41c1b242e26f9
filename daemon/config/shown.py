"""The configuration as ``tideline config show`` prints it.

It shows Tideline's settings, among which a secret has its own type. Settings passed on to a library
(``options``, ``conf``) have names that Tideline does not know: it shows their texts only if the name is known
to be harmless, and masks the others.
"""

from __future__ import annotations

import re
from typing import Any, Final

from daemon.config.quantities import quantity_text
from daemon.process.redaction import MASK, mask_forms, names_secret


PASSED_ON: Final = frozenset({"options", "conf"})
_HARMLESS: Final = re.compile(
    r"(?:^|[._-])(?:address|algorithm|authority|bytes|class|codec|codecs|compression|cores|count|dir|dirs|enabled?"
    r"|endpoint|endpoint_override|env|file|format|fsync|host|hosts|image|instances|interval|jars|kb|kbytes|level"
    r"|location|master|max|mechanisms?|memory|min|mode|ms|namespace|overhead|packages|partitions|path|policy|port"
    r"|principal|project_id|protocol|provider|providers|queue|region|rpc|scheme|seconds|servers|size|style|timeout"
    r"|tls|trusted_roots|type|uri|url|user|username|version|zone)$",
    re.IGNORECASE,
)


def show_settings(values: dict[str, Any], *, quantities: bool = False) -> dict[str, Any]:
    """Return the settings of a configuration as JSON values, without possible secrets.

    With ``quantities``, for readers, numbers of bytes and times become sizes and durations.
    """
    return {
        name: _show(inner, passed_on=name in PASSED_ON, quantities=quantities)
        for name, inner in values.items()
    }


def _show(value: Any, *, passed_on: bool, quantities: bool) -> Any:
    if isinstance(value, dict):
        return {
            name: _show_option(str(name), inner)
            if passed_on and not isinstance(inner, dict)
            else _show(
                quantity_text(str(name), inner) if quantities else inner,
                passed_on=passed_on or name in PASSED_ON,
                quantities=quantities,
            )
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_show(each, passed_on=passed_on, quantities=quantities) for each in value]
    return mask_forms(value) if isinstance(value, str) else value


def _show_option(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if names_secret(name):
        return MASK
    if isinstance(value, str):
        return mask_forms(value) if _HARMLESS.search(name) else MASK
    return value
