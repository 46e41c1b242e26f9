"""Reads the elements of Kryo's format: numbers, texts, names of classes and references.

Kryo 3 and 4 (Hive 2 and 3) and Kryo 5 (Hive 4) write these alike. No name in the bytes creates an object: a
class is only a text here, which ``hive_objects`` compares with the few that it knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


class Unreadable(ValueError):
    """The bytes are not an expression, or contain something that is not read."""


REGISTERED: Final = {
    0: "int",
    1: "java.lang.String",
    2: "float",
    3: "boolean",
    4: "byte",
    6: "short",
    7: "long",
    8: "double",
}
"""Ids of classes that both versions of Kryo write without a name."""
_OPEN: Final = object()
"""In place of an object that is still being read; a reference to it would be a circle."""


@dataclass(slots=True)
class KryoInput:
    """A position in the bytes, the names of classes and the objects read before it."""

    data: bytes
    registered: dict[int, str]
    position: int = 0
    _names: list[str] = field(default_factory=list)
    _objects: list[object] = field(default_factory=list)

    def read_bytes(self, count: int) -> bytes:
        """Return the next bytes."""
        found = self.data[self.position : self.position + count]
        if len(found) < count:
            raise Unreadable("the bytes end early")
        self.position += count
        return found

    def read_byte(self) -> int:
        """Return the next byte."""
        return self.read_bytes(1)[0]

    def read_boolean(self) -> bool:
        """Return a truth value."""
        value = self.read_byte()
        if value > 1:
            raise Unreadable("an invalid boolean")
        return value == 1

    def read_number(self, bits: int = 32) -> int:
        """Return a number of Kryo's variable length, without sign, of up to 32 or 64 bits."""
        value = shift = 0
        while True:
            byte = self.read_byte()
            # The ninth byte of a long contains eight of its bits.
            if bits == 64 and shift == 56:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
            shift += 7
            if shift >= bits:
                raise Unreadable("a number that is too long")
        if value >> bits:
            raise Unreadable("a number that is too large")
        return value

    def read_signed(self, bits: int = 32) -> int:
        """Return a number of Kryo's variable length, with sign."""
        value = self.read_number(bits)
        return value >> 1 ^ -(value & 1)

    def read_fixed(self, count: int) -> int:
        """Return a number of a fixed length, with sign."""
        return int.from_bytes(self.read_bytes(count), "big", signed=True)

    def read_text(self) -> str | None:
        """Return a text: ASCII whose last character has the upper bit, or characters with their number."""
        first = self.read_byte()
        if not first & 0x80:
            return self._read_ascii(first)
        count = first & 0x3F
        if first & 0x40:
            count |= self.read_number() << 6
        return None if count == 0 else self._read_characters(count - 1)

    def _read_ascii(self, first: int) -> str:
        characters = bytearray([first])
        while True:
            byte = self.read_byte()
            characters.append(byte & 0x7F)
            if byte & 0x80:
                return characters.decode("ascii")

    def _read_characters(self, count: int) -> str:
        units = bytearray()
        for _ in range(count):
            first = self.read_byte()
            if first < 0x80:
                unit = first
            elif first >> 5 == 0b110:
                unit = (first & 0x1F) << 6 | self._read_continuation()
            elif first >> 4 == 0b1110:
                unit = (first & 0x0F) << 12 | self._read_continuation() << 6 | self._read_continuation()
            else:
                raise Unreadable("a string that is not in Java's encoding")
            units += unit.to_bytes(2, "big")
        return units.decode("utf-16-be")

    def _read_continuation(self) -> int:
        byte = self.read_byte()
        if byte >> 6 != 0b10:
            raise Unreadable("a string that is not in Java's encoding")
        return byte & 0x3F

    def read_class(self) -> str | None:
        """Return the name of a class, None for NULL."""
        head = self.read_number()
        if head == 0:
            return None
        if head == 1:
            number = self.read_number()
            if number == len(self._names):
                self._names.append(self.read_text() or "")
            elif number > len(self._names):
                raise Unreadable("a reference to an unknown class name")
            return self._names[number]
        name = self.registered.get(head - 2)
        if name is None:
            raise Unreadable("an unknown class")
        return name

    def begin_object(self) -> int | None:
        """Begin an object; return its number, to be given to ``end_object``; None if it is NULL.

        Raises Known if read before.
        """
        mark = self.read_number()
        if mark == 0:
            return None
        if mark == 1:
            self._objects.append(_OPEN)
            return len(self._objects) - 1
        number = mark - 2
        if number >= len(self._objects) or self._objects[number] is _OPEN:
            raise Unreadable("a reference to an unknown object")
        raise Known(self._objects[number])

    def end_object(self, number: int, value: object) -> None:
        """Remember an object, to which references may follow."""
        self._objects[number] = value


class Known(Exception):
    """The object was read before."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value
