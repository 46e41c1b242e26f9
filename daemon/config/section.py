"""What all sections of the configuration have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section: no unknown keys, no changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
