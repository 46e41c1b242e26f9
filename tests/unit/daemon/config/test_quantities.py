"""Sizes and durations are read and written next to plain numbers, by the unit in the name of a setting."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.load import Loaded
from daemon.config.quantities import Quantity, WholeNumber, pattern_of, quantity_text, read_quantity, unit_of
from daemon.config.shown import show_settings
from daemon.service.configuration import config_model, config_reader


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("record_bytes_max", "512MiB", 512 * 1024**2),
        ("file_bytes", "1.5 GiB", 1536 * 1024**2),
        ("bytes_min", "10GB", 10_000_000_000),
        ("bytes_per_s_max", "64Mi", 64 * 1024**2),
        ("file_bytes", "17 B", 17),
        ("drain_s", "1h30m", 5400),
        ("drain_s", "3 min 20 s", 200),
        ("poll_min_s", "10ms", 0.01),
        ("bound_ms", "2s", 2000),
        ("retention_days", "2d", 2),
        ("refresh_hours", "1d12h", 36),
        ("drain_s", 5, 5),
        ("drain_s", "5", "5"),
        ("drain_s", "5 apples", "5 apples"),
        ("file_bytes", "1h", "1h"),
        ("drain_s", "1MiB", "1MiB"),
        ("tables", "1h", "1h"),
        ("earliest_s", "1h", "1h"),
    ],
)
def test_a_text_is_read_in_the_unit_of_the_setting(name: str, text: object, value: object) -> None:
    assert read_quantity(unit_of(name), text) == value


@given(
    st.sampled_from(["a_bytes", "a_s", "a_ms", "a_hours", "a_days", "a_bytes_per_s_max"]),
    st.integers(0, 2**50) | st.integers(0, 10**6).map(lambda n: n / 1000),
)
def test_what_is_written_is_read_as_the_same(name: str, value: float) -> None:
    text = quantity_text(name, value)
    unit = unit_of(name)
    assert unit is not None
    assert read_quantity(unit, text) == pytest.approx(value)
    assert not isinstance(text, str) or re.match(pattern_of(unit), text)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("x_bytes", 536870912, "512MiB"),
        ("x_bytes", 1000, 1000),
        ("x_s", 604800, "7d"),
        ("x_s", 60.0, "1m"),
        ("x_s", 0.5, "500ms"),
        ("x_s", 0, 0),
        ("x_s", True, True),
        ("x_s", None, None),
        ("x_days", 60, "60d"),
    ],
)
def test_a_value_is_written_short(name: str, value: Any, text: object) -> None:
    assert quantity_text(name, value) == text


def read(tmp_path: Path, text: str) -> Loaded:
    path = tmp_path / "tideline.yaml"
    path.write_text(f"state: {{dir: {tmp_path}}}\nflat: {{}}\n{text}\n")
    return config_reader().read(path, {})


def test_a_file_has_sizes_and_durations(tmp_path: Path) -> None:
    loaded = read(tmp_path, "supervisor: {drain_s: 1m30s, heartbeat_max_s: 1h}")
    assert loaded.config is not None
    assert loaded.config.supervisor.drain_s == 90
    values = loaded.config.model_dump(mode="json")
    shown = show_settings(values, quantities=True)["supervisor"]
    assert (shown["drain_s"], shown["heartbeat_max_s"]) == ("1m30s", "1h")
    assert show_settings(values)["supervisor"]["drain_s"] == 90


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("1h", "must be less than or equal to 600"),
        ("2 apples", "must be a number, or a duration such as 1h30m"),
    ],
)
def test_bounds_hold_for_texts_and_other_texts_are_refused(written: str, reason: str, tmp_path: Path) -> None:
    (problem,) = read(tmp_path, f"supervisor: {{drain_s: {written}}}").problems
    assert problem.key == "supervisor.drain_s"
    assert reason in problem.reason


def test_the_schema_accepts_numbers_and_texts() -> None:
    drain = config_model().model_json_schema()["$defs"]["SupervisorConfig"]["properties"]["drain_s"]
    number, text = drain["anyOf"]
    assert (number["type"], number["maximum"], text["type"]) == ("number", 600, "string")
    assert re.match(text["pattern"], "1m30s")
    assert not re.match(text["pattern"], "1MiB")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Quantity("bytes", 1024), "5", "5 must be at least 1KiB."),
        (Quantity("s", 0, 60), "1h30m", "1h30m must be at most 1m."),
        (Quantity("s"), "-5", "-5 must be at least 0."),
        (Quantity("bytes"), "20MX", "20MX must be a number or a size such as 512MiB."),
        (Quantity("s"), "nan", "nan must be a number or a duration such as 1h30m."),
        (Quantity("bytes"), "inf", "inf must be a number or a size such as 512MiB."),
        (WholeNumber(1), "-1", "-1 must be at least 1."),
        (WholeNumber(1, 9), "10", "10 must be at most 9."),
        (WholeNumber(), "1.5", "1.5 must be a whole number."),
        (WholeNumber(), "abc", "abc must be a whole number."),
    ],
)
def test_a_value_of_an_option_is_refused_in_the_form_in_which_it_is_written(
    kind: Quantity | WholeNumber, text: str, message: str
) -> None:
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Quantity("bytes"), "1.5KiB", 1536),
        (Quantity("s"), "10ms", 0.01),
        (Quantity("s"), "2.5", 2.5),
        (Quantity("s"), 30.0, 30),
    ],
)
def test_a_value_of_an_option_is_a_number_or_a_quantity(kind: Quantity, given: object, value: float) -> None:
    assert kind.convert(given, None, None) == value
