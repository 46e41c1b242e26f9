"""``tideline docs`` shows the pages and sections that messages name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from daemon.service.command_line import tideline
from daemon.terminal.pages import find_page, find_pages, find_section, page_name
from state.errors import NotFound


ROOT = Path(__file__).parents[4]
PAGE = """\
# Title

## A table

```sh
# a comment
```

### Below

text

## Another table

| code | meaning |
|---|---|
| `gap` | lost |

| name | type | default |
|---|---|---|
| gap | int | 3 |
"""


def mentions() -> set[str]:
    files = [
        file for top in ("state", "handlers", "streaming", "daemon") for file in (ROOT / top).rglob("*.py")
    ]
    return {
        found for file in files for found in re.findall(r"docs/[\w/-]+\.md(?:#[\w-]+)?", file.read_text())
    }


def test_every_section_that_the_product_names_can_be_shown() -> None:
    named = mentions()
    assert len(named) > 10
    for mention in named:
        path, _, anchor = mention.partition("#")
        text = find_pages()[page_name(path)].read_text()
        assert not anchor or find_section(text, anchor)


def test_a_section_ends_before_the_next_heading_of_its_level() -> None:
    shown = find_section(PAGE, "a-table")
    assert shown.startswith("## A table")
    assert shown.endswith("### Below\n\ntext\n")


def test_an_exact_heading_comes_before_one_that_contains_the_words() -> None:
    assert find_section(PAGE, "another table").startswith("## Another table")
    assert find_section(PAGE, "table").startswith("## A table")


def test_rows_of_tables_are_shown_with_the_names_of_their_columns() -> None:
    assert find_section(PAGE, "gap") == "code: `gap`\nmeaning: lost\nname: gap\ntype: int\ndefault: 3\n"


def test_the_error_code_of_a_message_leads_to_its_meaning() -> None:
    shown = CliRunner().invoke(tideline, ["docs", "errors", "gap"]).output
    assert "class: GapDetected" in shown
    assert "what to do: " in shown


def test_without_a_page_all_pages_are_listed_with_their_titles() -> None:
    lines = CliRunner().invoke(tideline, ["docs"]).output.splitlines()
    assert len(lines) == len(find_pages())
    assert any(re.match(r"file-systems +File systems", line) for line in lines)


def test_a_page_is_found_without_its_directory_if_only_one_has_the_name() -> None:
    files = {name: Path(name) for name in ("relay", "runbooks/relay", "guides/policies", "a/x", "b/x")}
    assert find_page(files, "policies") == Path("guides/policies")
    assert find_page(files, "relay") == Path("relay")
    with pytest.raises(NotFound):
        find_page(files, "x")


def test_an_unknown_name_is_answered_with_similar_ones() -> None:
    with pytest.raises(NotFound) as failure:
        find_section(PAGE, "belov")
    assert "Did you mean 'below'?" in str(failure.value.hint)


def test_a_mistyped_page_is_answered_with_similar_ones() -> None:
    result = CliRunner().invoke(tideline, ["docs", "eror"])
    assert isinstance(result.exception, NotFound)
    assert "'errors'" in str(result.exception.hint)
