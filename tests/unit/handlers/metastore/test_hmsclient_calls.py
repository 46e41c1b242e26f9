"""The list of calls in the package's DESIGN.md: which ones hmsclient answers, and which ones are declared
with own structs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore


DESIGN = (Path(__file__).parents[4] / "handlers" / "metastore" / "DESIGN.md").read_text()
ROWS = re.findall(
    r"^\| .*? \| (.*) \|$",
    DESIGN.split("## Which client makes which call")[1].split("\n## ")[0],
    re.MULTILINE,
)
OF_HMSCLIENT, OLD_FORM, NEWER = (set(re.findall(r"`(\w+)`", row)) for row in ROWS[1:])
PROGRAM = """
import json, handlers.metastore.client, streaming.table.catalog
from handlers.metastore.calls import DECLARED, PlainCall
print(json.dumps({name: isinstance(call, PlainCall) for name, call in DECLARED.items()}))
"""  # in another process: tests declare further calls


def test_the_list_names_every_call_of_the_product_in_its_row() -> None:
    printed = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    is_plain = json.loads(printed.stdout)
    assert {name for name, plain in is_plain.items() if plain} == OF_HMSCLIENT
    assert {name for name, plain in is_plain.items() if not plain} == OLD_FORM | NEWER


def test_hmsclient_has_exactly_the_calls_of_the_first_two_rows() -> None:
    named = OF_HMSCLIENT | OLD_FORM | NEWER
    assert {name for name in named if hasattr(ThriftHiveMetastore.Client, name)} == OF_HMSCLIENT | OLD_FORM
