"""Resolves templates: query texts with variables, as in repositories (dbt, Airflow, programs, dashboards).

Calls of dbt that name a table become its name: ``{{ source('web', 'clicks') }}`` and ``{{ ref('clicks') }}``.
Every other expression becomes ``VARIABLE``, a name that no table, column or key has: its value is unknown.
Statements and comments of the template are removed. Repeated or conditional text stays in the text once.

A key that contains a placeholder is not a key. In a JSON path, a member that begins with ``$`` counts as a
placeholder (``$.$key``), unless written in brackets and quotes (``$['$oid']``).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final


VARIABLE: Final = "tideline_variable_"
_MARKS: Final = ("{", "%", "@", ":$")
"""Every text with a template contains one of these."""
_BLOCK: Final = re.compile(
    r"\{\{\{?[-+]?(?P<value>(?:(?!\{\{|\}\}).)*)\}?\}\}"
    r"|\{%(?:(?!\{%|%\}).)*%\}|\{\#(?:(?!\{\#|\#\}).)*\#\}"
    r"|<%(?P<sign>[=\#-]?)(?P<code>(?:(?!<%|%>).)*)%>",
    re.DOTALL,
)
"""Jinja (dbt, Airflow, Superset), Mustache (Redash, Metabase), and ERB. A block ends before the next one
begins, so the time is linear."""
_FORMAT: Final = re.compile(
    r"(?<=[\s(,=.:])(?:\{(?:[A-Za-z_][\w.]*|\d*)(?:![rsa])?(?::[^{}\s]*)?\}|%\(\w+\)s|%s|\#\{[\w.]+\}|&\{\w+\}|@\w+@)(?=[\s),;.:]|$)"
    r"|(?<=:)\$\{?\w+\}?"
)
"""Format strings of programs, MyBatis, snowsql and Maven, outside of quotes."""
_TABLE: Final = re.compile(
    r"\s*(?:source\(\s*(['\"])(?P<database>[^'\"]+)\1\s*,\s*(['\"])(?P<table>[^'\"]+)\3"
    r"|ref\(\s*(?:(['\"])[^'\"]+\5\s*,\s*)?(['\"])(?P<model>[^'\"]+)\6\s*(?:,\s*v(?:ersion)?\s*=[^,()]*)?)\s*\)\s*[-+]?\s*"
)
_SILENT: Final = re.compile(r"\s*(?:config|log|set_sql_header|do|import)\s*\(")
_WORD: Final = re.compile(r"\w+")
_PLACEHOLDER: Final = re.compile(
    r"(?=[${%\#&@<t\[])(?:"
    r"\$[{(!]|\$\d|(?<!\[['\"])\$[A-Za-z_]|\{[^{}]*\}|\{[{%\#]|%(?:\(\w*\)|\d+\$)?[sdr](?!\w)|%\w+%"
    rf"|\#\{{|&\{{|(?<=\.)&&?\w|@\w+@|<%|<\w+>|\[\[|{VARIABLE})"
)


def resolve_templates(text: str, columns: Collection[str]) -> str:
    """Return ``text`` without templates. A macro that gets one of ``columns`` becomes an unknown function of
    this column.
    """
    if not any(mark in text for mark in _MARKS):
        return text
    return _FORMAT.sub(VARIABLE, _BLOCK.sub(lambda block: _replace(block, columns), text))


def has_placeholder(text: str) -> bool:
    """Whether the text of a key contains a variable."""
    return _PLACEHOLDER.search(text) is not None


def _replace(block: re.Match[str], columns: Collection[str]) -> str:
    value = block["value"] if block["value"] is not None else block["code"] if block["sign"] == "=" else None
    if value is None or _SILENT.match(value):
        return " "
    table = _TABLE.fullmatch(value)
    if table is not None:
        names = [table["database"], table["table"]] if table["table"] else [table["model"]]
        return ".".join(name if _WORD.fullmatch(name) else f"`{name}`" for name in names)
    arguments = [word for word in _WORD.findall(value) if word.lower() in columns] if "(" in value else []
    return f"{VARIABLE}({', '.join(arguments)})" if arguments else VARIABLE
