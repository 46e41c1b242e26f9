"""The text of an error in its parts; nothing of it is lost."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.site.problem_texts import ProblemText, split_problem
from state.errors import GapDetected, TidelineError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[file-lost] the file is gone (path=/a (b), size=1). Release the table.",
            ProblemText("The file is gone.", "path=/a (b), size=1", "Release the table.", "file-lost"),
        ),
        (
            "failed 3 times: [files-unavailable] the disk (of the target) is full (path=/a)",
            ProblemText(
                "Failed 3 times: the disk (of the target) is full.", "path=/a", "", "files-unavailable"
            ),
        ),
        ("an operator paused the policy", ProblemText("An operator paused the policy.")),
        (
            "[gap] events are missing (expected=1, fo",
            ProblemText("Events are missing (expected=1, fo.", code="gap"),
        ),
        ("[file-lost] part-0001 is gone", ProblemText("part-0001 is gone.", code="file-lost")),
        ("", ProblemText("")),
    ],
)
def test_a_text_has_a_message_values_a_hint_and_a_code(text: str, expected: ProblemText) -> None:
    assert split_problem(text) == expected


def test_a_hint_is_found_without_values_if_it_is_known() -> None:
    error = GapDetected("events are missing")
    found = split_problem(str(error), error.hint)
    assert (found.message, found.fix) == ("Events are missing.", error.hint)


ASCII = st.text(st.characters(codec="ascii"), max_size=30)


@given(ASCII, st.dictionaries(st.sampled_from(["path", "size"]), ASCII), ASCII)
def test_no_part_of_an_error_is_lost(message: str, context: dict[str, str], hint: str) -> None:
    text = str(TidelineError(message, hint=hint, **context))
    found = split_problem(text, hint)
    shown = f"{found.code} {found.message} {found.details} {found.fix}"
    assert _letters(text) <= _letters(shown)


def _letters(text: str) -> Counter[str]:
    return Counter(each for each in text.lower() if each.isalnum())
