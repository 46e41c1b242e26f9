"""Checks that answers have the forms that the description of the API gives them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from pydantic import TypeAdapter


def check_form(adapter: TypeAdapter[Any], body: str | bytes) -> None:
    """Check that an answer has exactly the fields of its form. Those with a default may be left out."""
    answer = json.loads(body)
    formed = json.loads(adapter.dump_json(adapter.validate_json(body)))
    left_out = {name for name, value in formed.items() if value is None and name not in answer}
    assert {name: value for name, value in formed.items() if name not in left_out} == answer
