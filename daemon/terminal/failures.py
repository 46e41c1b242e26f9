"""How a failure reads on a terminal."""

from __future__ import annotations

from state.errors import TidelineError


def failure_lines(error: Exception) -> list[str]:
    """Return the message, then the values that it is about, then what to do; control characters made visible."""
    if not isinstance(error, TidelineError):
        return [
            _visible(f"Error: {type(error).__name__}: {error}"),
            "  This is a defect of Tideline: run the command with --debug first ('tideline --debug ...') and report it.",
        ]
    lines = [f"Error [{error.code}]: {error.message}"]
    values = ", ".join(f"{name}={value}" for name, value in error.context.items() if value is not None)
    if values:
        lines.append(f"  {values}")
    if error.hint:
        lines.append(f"  {error.hint}")
    return [_visible(line) for line in lines]


def _visible(text: str) -> str:
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
