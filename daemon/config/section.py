"""What all sections of the configuration have in common: their strictness, and how a validator of theirs says no."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A section: no unknown keys, no changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def refused(message: str) -> PydanticCustomError:
    """Return the error for a validator to raise; ``load`` shows its message beside the setting, as it stands.

    The message is data: braces in it are not for formatting.
    """
    return PydanticCustomError("setting", "{message}", {"message": message})
