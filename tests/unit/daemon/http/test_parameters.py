"""Parameters of requests: read with limits, written by clients, described in the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from annotated_types import Interval
from hypothesis import given
from hypothesis import strategies as st

from daemon.http.parameters import (
    CHARACTERS_MAX,
    LongText,
    Parameters,
    describe_parameters,
    read_parameters,
    write_parameters,
)
from state.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Sought(Parameters):
    """What to look for."""

    name: str = ""
    start: str = field(metadata={"alias": "from"})
    """Where it begins, which is
    included."""
    limit: Annotated[int, Interval(ge=0, le=10)] | None = field(default=None, metadata={"alias": "max"})
    """The most to return."""
    order: Literal["up", "down"] = "up"
    """How to sort them."""
    exact: bool = False
    share: Annotated[float, Interval(ge=0, le=1)] = 0.5
    text: LongText = ""


@given(
    st.builds(
        Sought,
        start=st.text(max_size=9),
        limit=st.none() | st.integers(0, 10),
        order=st.sampled_from(["up", "down"]),
        exact=st.booleans(),
        share=st.floats(0, 1),
        text=st.text(max_size=9),
    )
)
def test_a_request_with_the_written_parameters_means_the_same(sought: Sought) -> None:
    assert read_parameters(Sought, write_parameters(sought)) == sought


def test_only_what_differs_from_the_default_is_sent() -> None:
    assert write_parameters(Sought(name="a.b", start="x", exact=True)) == {"from": "x", "exact": "true"}


def test_the_name_in_the_path_is_no_parameter_of_the_query() -> None:
    assert read_parameters(Sought, {"from": "x"}, name="a.b") == Sought(name="a.b", start="x")
    with pytest.raises(BadInput, match="unknown parameter"):
        read_parameters(Sought, {"from": "x", "name": "c.d"}, name="a.b")


@pytest.mark.parametrize(
    ("wrong", "value"),
    [
        ("from", "x" * (CHARACTERS_MAX + 1)),
        ("text", "x" * 8_001),
        ("max", "11"),
        ("max", "-1"),
        ("max", "9" * 5_000),
        ("max", ""),
        ("order", "sideways"),
        ("exact", "perhaps"),
        ("share", "nan"),
        ("share", "inf"),
        ("limit", "1"),
        ("other", "1"),
    ],
)
def test_a_wrong_parameter_is_named_with_a_short_value(wrong: str, value: str) -> None:
    with pytest.raises(BadInput) as error:
        read_parameters(Sought, {"from": "x"} | {wrong: value})
    assert error.value.context["parameter"] == wrong
    assert len(str(error.value)) < 400


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(BadInput, match="from: Field required"):
        read_parameters(Sought, {})


def test_the_description_has_types_limits_defaults_and_texts() -> None:
    described = {each["name"]: each for each in describe_parameters(Sought)}
    assert list(described) == ["from", "max", "order", "exact", "share", "text"]
    assert [each for each, found in described.items() if found["required"]] == ["from"]
    assert described["from"]["description"] == "Where it begins, which is included."
    assert described["from"]["schema"] == {"type": "string", "maxLength": CHARACTERS_MAX}
    assert described["max"]["schema"] == {"type": "integer", "minimum": 0, "maximum": 10}
    assert described["order"]["schema"] == {"type": "string", "enum": ["up", "down"], "default": "up"}
    assert described["exact"]["schema"] == {"type": "boolean", "default": False}


def test_of_several_kinds_none_is_required() -> None:
    described = describe_parameters(Parameters, Sought)
    assert not any(each["required"] for each in described)
    assert len(described) == 6
