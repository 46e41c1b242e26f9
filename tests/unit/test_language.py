"""Texts are plain technical English: no words of a private dialect, short sentences, messages in one form.

Checked are documentation, docstrings, comments and messages; code is not, whether in modules or in examples.
A failure names the file, the line and what to write instead. Where a word is right nevertheless (a stored
name, a JSON value, another product's term), add an exception with its reason.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from state import errors


ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("state", "handlers", "streaming", "daemon", "dev", "bench")
"""Python packages whose docstrings, comments and messages are checked."""
SENTENCE_WORDS_MAX: Final = 45

AVOID: Final = {
    # Words of the project's old vocabulary: one term for each concept.
    r"confin(e|es|ed|ing|ements?)": "quarantine, quarantined table",
    r"letterbox(es)?": "dead-letter topic, dead-letter reader",
    (
        r"(?<!dead )(?<!dead-)(?<!with )(?<!, "
        r")(a|the|this|that|each|one|every) letters?(?! [a-z]\b)"
    ): "dead letter",
    r"(?<!code )(?<!Code )generations?": "Hive version, version",
    r"harden(s|ed|ing)?": "promotion to STRING (numeric types are widened)",
    r"peoples?|persons?|humans?": "users, operator",
    r"asked keys?": "requested key",
    r"footings?": "checkpoint, durable position",
    r"landmarks?": "look-ahead barrier",
    r"books?": "write-id mapping, hour counts",
    r"table of write ids": "write-id mapping",
    r"houses?|worlds?": "catalog, metastore",
    r"(?<!is )(?<!no )rooms?": "package",
    r"news": "progress event, status",
    r"leash(es)?": "parent watch",
    r"lifelines?": "heartbeat",
    # Riddles, personification and inverted sentences.
    r"told": "reported, given",
    r"wanted|wants": "required, must, needs",
    r"mend(s|ed|ing)?": "fix, recover",
    r"look(s|ed|ing)? after": "maintain, supervise",
    r"for good(?! reason)": "permanently",
    r"for ever|forever": "indefinitely, permanently",
    r"whoever|whomever|whosoever": "name the actor",
    r"somebody('s)?|nobody's": "someone, another process",
    r"(of )?ours": "Tideline's, or leave it out",
    r"what (became|becomes|has become|had become) of": "the result of, the decision for",
    r"(take|takes|took|taken|taking) back": "discard, undo",
    r"withdraw(s|n|ing|al)?|withdrew|disclaim(s|ed|ing)?": "discard",
    r"last words": "the end of its output",
    r"strangers?": "untrusted source",
    r"believe(s|d)?": "verify, accept",
    r"anew": "again",
    r"pass(ed|es|ing) over(?! (the|a|all|its|their) )": "skip",
    r"(?<!here )(is|are|was|were) no(?! (longer|more)\b)": "is not, must not be, cannot be",
    r"(it|that|this) is no(?! longer)": "is not",
    r"Nor (is|are|was|were|do|does|did|can|has|have)": "a sentence of its own, not inverted",
    r"(tell|tells|telling) (\w+ )?apart": "distinguish",
    r"in vain": "without effect",
    r"by (itself|themselves)": "on its own, automatically, alone, separately",
    r"(?<!user )nobody(?! (wants|knows)\b)|anybody": "no one, no reader, no process",
    r"also (if|when|while)": "even if, including",
    r"tells|telling": "report, show, give",
    r"(ask|asks|asked|asking) for": "query, request",
    r"questions?": "query, request",
    r"(go|goes|going|went|gone) on": "continue",
    r"at hand": "current",
    r"(come|comes|came) again": "repeated",
    r"(hand|hands|handed|handing) out": "deliver, return",
    # Constructions that no native writer uses.
    (
        r"of (its|their) own(?=\s*$|\s*[.,:;()`|\]]|\s+(and|or|to|in|on|for|with|as|but|is|are|at|that|which"
        r"|when|if|than|were|was|take|itself|instead|either)\b)"
    ): "its own X, a separate X",
    r"an own": "its own, a separate",
    r"let (a|an|the|it|them|each|every|this|that)\b[^.]{0,60} be \w+(ed|en|n)": "the verb itself",
    r"(required|refused|fails?|allowed|possible|needed|only|except|even|counts|set) where": "if, unless",
    r"stop(s|ped)? to (keep|follow|read|write|copy|apply|delete|replicate)": "stop keeping, stop following",
}
"""What not to write (regular expressions, matched as whole words and in any case), and what to write
instead."""

ALLOWED: Final = {
    "tables that nobody wants": "name of a benchmark case, also in the recorded results",
}
"""Phrases in which such a word is right, each with its reason."""

ALLOWED_IN: Final = {
    ("streaming/keylog/schema.py", "people"): "comment of a column, stored in the database",
    ("streaming/keylog/schema.py", "question"): "comment of a column, stored in the database",
    (
        "streaming/keylog/migrations/versions/v0001_key_log.py",
        "people",
    ): "comment of a column, stored in the database",
    (
        "streaming/keylog/migrations/versions/v0001_key_log.py",
        "question",
    ): "comment of a column, stored in the database",
}
"""(file, word) pairs in which such a word is right, each with its reason."""

PROPER: Final = frozenset(
    {"Apiary", "Hadoop", "Hive", "Java", "Kafka", "Kryo", "PySpark", "Spark", "Thrift", "Tideline"}
)
"""Names that an error message may start with."""

QUOTED: Final = {
    "Specified key <": "a text of Hive for which clients search",
    "Value should be on the RHS": "a text of Hive for which clients search",
}
"""Beginnings of error messages that another product prescribes, each with its reason."""


class Text(NamedTuple):
    """A piece of prose and where it stands."""

    path: str
    line: int
    text: str


class Finding(NamedTuple):
    """A word to avoid, as the test reports it."""

    where: str
    word: str
    instead: str


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(_across_lines(rf"\b(?:{word})\b"), re.IGNORECASE), instead)
        for word, instead in AVOID.items()
    )


def _across_lines(phrase: str) -> str:
    """Let a phrase match where a line ends between its words."""
    return phrase.replace(" ", r"\s")


def findings(texts: Iterator[Text]) -> list[Finding]:
    """Return every word to avoid that no exception covers."""
    found = []
    for path, line, text in texts:
        prose = re.sub(r"[ \t]*\n[ \t#]*", "\n", _without_code(text))
        for phrase in ALLOWED:
            prose = re.sub(_across_lines(phrase), " ", prose, flags=re.IGNORECASE)
        for pattern, instead in _patterns():
            for match in pattern.finditer(prose):
                word = re.sub(r"\s+", " ", match.group())
                if (path, word.lower()) not in ALLOWED_IN:
                    at = line + prose[: match.start()].count("\n")
                    found.append(Finding(f"{path}:{at}", word, instead))
    return found


def _without_code(text: str) -> str:
    """Blank out code spans, links and quoted program output, keeping the line numbers."""
    return re.sub(
        r"``[^`]*``|`[^`]*`|\]\([^)]*\)|https?://\S+",
        lambda code: " " + "\n" * code.group().count("\n"),
        text,
    )


def pages() -> list[Path]:
    """Return the documentation in Markdown."""
    found = [
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "helm/tideline/README.md")
    ]
    found += sorted((ROOT / "docs").rglob("*.md"))
    return [*found, *(page for name in PACKAGES for page in sorted((ROOT / name).rglob("*.md")))]


def other_texts() -> list[Path]:
    """Return files that are neither Markdown nor Python and have comments or texts."""
    chart = [
        path
        for path in sorted((ROOT / "helm").rglob("*"))
        if path.suffix in {".yaml", ".tpl", ".txt", ".json"}
    ]
    return [
        ROOT / "Dockerfile",
        ROOT / "Makefile",
        ROOT / ".dockerignore",
        ROOT / "pyproject.toml",
        ROOT / ".ci/run",
        *chart,
    ]


def of_page(page: Path) -> Iterator[Text]:
    """Yield the prose of a Markdown page as one text, code blocks blanked out."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", lambda code: "\n" * code.group().count("\n"), page.read_text())
    yield Text(str(page.relative_to(ROOT)), 1, text)


def of_file(path: Path) -> Iterator[Text]:
    """Yield a whole file: its code has no words to avoid."""
    yield Text(str(path.relative_to(ROOT)), 1, path.read_text())


def modules() -> list[Path]:
    """Return the Python modules of the checked packages."""
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


def of_module(path: Path) -> Iterator[Text]:
    """Yield the comments, docstrings and messages of a Python module."""
    name, source = str(path.relative_to(ROOT)), path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:|pragma|fmt:)", token.string):
            yield Text(name, token.start[0], token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_prose(node.value):
            yield Text(name, node.lineno, node.value)


def _is_prose(value: str) -> bool:
    """Tell a message from names, keys, SQL and formats: at least two words of lower-case letters."""
    return len(re.findall(r"(?<![\w.])[a-z]{2,}(?![\w.(])", value)) > 1


def report(found: list[Finding]) -> str:
    """Return one line per finding."""
    return "\n".join(f"{where}: {word!r}; write: {instead}" for where, word, instead in found)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_common_vocabulary(page: Path) -> None:
    found = findings(of_page(page))
    assert not found, report(found)


@pytest.mark.parametrize("path", other_texts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_comments_outside_python_use_the_common_vocabulary(path: Path) -> None:
    found = findings(of_file(path))
    assert not found, report(found)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_comments_and_messages_use_the_common_vocabulary(path: Path) -> None:
    found = findings(of_module(path))
    assert not found, report(found)


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page: table cells, list items and paragraphs end a sentence, and so does a
    colon."""
    (text,) = of_page(page)
    prose = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", text.text))
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n#+ .*|\s\|\s|\|\n", prose):
        yield from re.split(r"(?<=[.:;?!])\s+", " ".join(block.split()))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    long = [text for text in sentences(page) if len(text.split()) > SENTENCE_WORDS_MAX]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_code_spans_do_not_cross_lines(page: Path) -> None:
    """A reader copies a span as it stands, and a search for a command finds it."""
    (text,) = of_page(page)
    code = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
    spans = [span[0] for each in re.split(r"\n\s*\n", text.text) for span in code.finditer(each)]
    assert not [span for span in spans if "\n" in span]


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the messages with which a module creates errors of the tree."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in kinds
            and node.args
        ):
            first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _has_form(message: str) -> bool:
    first = re.split(r"[^A-Za-z]", message)[0]
    lower = not re.match(r"[A-Z][a-z]", message) or first in PROPER or message.startswith(tuple(QUOTED))
    return lower and not re.search(r"[a-z]\.$", message)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_error_messages_start_in_lower_case_and_end_without_a_full_stop(path: Path) -> None:
    wrong = [f"{path}:{line}: {message}" for line, message in messages(path) if not _has_form(message)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("path", "word"), sorted(ALLOWED_IN))
def test_exceptions_are_still_needed(path: str, word: str) -> None:
    assert re.search(rf"\b{word}\b", (ROOT / path).read_text(), re.IGNORECASE)
