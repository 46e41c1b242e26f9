"""What all sections of the configuration share: strict models, the error of a validator, and sections that capabilities add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


T = TypeVar("T")


class Section(BaseModel):
    """A section of the configuration: unknown keys are refused, values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of settings, with the present ones. A former name is still read, and reported as a warning."""


def refused(message: str) -> PydanticCustomError:
    """Return the error that a validator raises; ``message`` is printed behind the setting.

    The message is passed as data, so that braces in it are not read as format fields.
    """
    return PydanticCustomError("setting", "{message}", {"message": message})


@dataclass(frozen=True, slots=True)
class ConfigSection(Generic[T]):
    """A top-level section that a capability adds to the configuration.

    The configuration's class is composed from these at start, so a type checker cannot see the attribute; ``of`` gives the
    section's value with its type.
    """

    key: str
    annotation: Any
    """Type of the section as pydantic reads it; its values have type ``T``."""
    field: Any
    """pydantic's ``Field``: default, bounds and description."""

    def of(self, config: BaseModel) -> T:
        """Return the section of ``config``."""
        found: T = getattr(config, self.key)
        return found
