"""A long list of texts in few objects, for what a thread keeps while others must not wait.

A list of a million strings is a million objects: the garbage collector looks at each of them, and the last reference to the list frees
them all in one call. Both keep every thread of the process waiting for a tenth of a second. Here a block of texts is one string, so a
million texts are a thousand objects, and take a third of the memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Final, overload


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


BLOCK: Final = 1_000
"""Texts of one block, and texts that are released in one call."""


class TextList(Sequence[str]):
    """An immutable sequence of texts; each read creates a new text."""

    def __init__(self) -> None:
        """An empty list; ``take`` makes others."""
        self._blocks: list[tuple[str, array[int]]] = []
        """Texts joined, and where each of them ends; all blocks but the last are full."""
        self._length = 0

    @staticmethod
    def take(texts: list[str], pause: Callable[[], None] = lambda: None) -> TextList:
        """Move all texts out of a list, which is empty afterwards. ``pause`` is called after each block.

        The list's strings are freed block by block, if nothing else refers to them.
        """
        made = TextList()
        made._length = len(texts)
        while texts:
            start = (len(texts) - 1) // BLOCK * BLOCK
            made._blocks.append(_join(texts[start:]))
            del texts[start:]
            pause()
        made._blocks.reverse()
        return made

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(_split(*block) for block in self._blocks)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._length)
            assert step == 1, "a part of the list is read in its order"
            first, last = start // BLOCK, -(-stop // BLOCK)
            found = [text for block in self._blocks[first:last] for text in _split(*block)]
            return found[start - first * BLOCK : max(stop - first * BLOCK, 0)]
        number = range(self._length)[at]
        joined, ends = self._blocks[number // BLOCK]
        within = number % BLOCK
        return joined[ends[within - 1] if within else 0 : ends[within]]


def _join(texts: list[str]) -> tuple[str, array[int]]:
    return "".join(texts), array("Q", accumulate(map(len, texts)))


def _split(joined: str, ends: array[int]) -> list[str]:
    return [joined[start:end] for start, end in pairwise(chain((0,), ends))]
