from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from handlers.decoding.decoder import Format, decode, recognise
from handlers.decoding.header import Arrival
from handlers.decoding.messages import read_object
from handlers.events import Undecodable


PAGE = (Path(__file__).parents[4] / "docs" / "FORMATS.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## (\S+)\n(.*?)(?=^## |\Z)", PAGE))
EXAMPLES = [
    (name, line)
    for name in get_args(Format)
    for block in re.findall(r"(?s)```json\n(.*?)```", SECTIONS[name])
    for line in block.splitlines()
]


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=lambda text: text[:30])
def test_every_example_has_its_format_and_can_be_decoded(name: str, line: str) -> None:
    assert recognise(read_object(line.encode())) == name
    event = decode(line.encode(), arrival=Arrival(1, 1))
    assert isinstance(event, Undecodable) == ('"message":null' in line)


def test_every_format_has_an_example() -> None:
    assert {name for name, _ in EXAMPLES} == set(get_args(Format))
