"""Opens local paths of which no component may be a symbolic link.

A writer of a warehouse can put a symbolic link there. If Tideline followed it, it would copy a file from
outside of the readable roots, or remove a directory outside of the target. The kernel checks all components
in one call (``openat2`` with ``RESOLVE_NO_SYMLINKS``, Linux 5.6). Older kernels, and containers that forbid
the call, open one component after another with ``O_NOFOLLOW``.

A trusted root is a directory that an operator has named. Its own path may contain links; the path below it
may not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat as modes
from collections.abc import Callable
from functools import cache
from typing import Final


DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags for looking up or changing names in a directory, which needs no right to list it."""

_OPENAT2: Final = 437
_RESOLVE_NO_SYMLINKS: Final = 0x04
_AT_FDCWD: Final = -100


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class TrustedRoots:
    """Directories whose own paths may contain symbolic links. Thread-safe, because roots are only added."""

    def __init__(self) -> None:
        self._roots: tuple[tuple[str, str], ...] = ()
        """Each root with and without a trailing slash; inner ones first."""

    def add(self, root: str) -> None:
        """Trust the path ``root``, which has neither ``..`` nor a slash at the end."""
        roots = {*self._roots, (root, f"{root}/")}
        self._roots = tuple(sorted(roots, key=lambda each: len(each[0]), reverse=True))

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of ``path``.

        Raises OSError: ELOOP if a component below the innermost trusted root is a symbolic link. Without a
        root above it, no component may be one.
        """
        for root, prefix in self._roots:
            if path == root:
                return os.open(path, flags)
            if path.startswith(prefix):
                above = os.open(root, DIRECTORY)
                try:
                    return _opener()(above, path[len(prefix) :], flags)
                finally:
                    os.close(above)
        return _opener()(_AT_FDCWD, path, flags)


@cache
def _opener() -> Callable[[int, str, int], int]:
    """Return the function that opens a path without links: with one system call if the kernel supports
    that, otherwise by component.
    """
    try:
        os.close(open_at_once(_AT_FDCWD, "/", DIRECTORY))
    except OSError:
        return open_by_component
    return open_at_once


def open_at_once(above: int, path: str, flags: int) -> int:
    """Open ``path``, relative to the directory ``above`` unless it is absolute, with one system call."""
    how = _how(flags)
    while (fd := _syscall()(_OPENAT2, above, os.fsencode(path), how, ctypes.sizeof(_How))) < 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)
    return int(fd)


@cache
def _how(flags: int) -> object:
    return ctypes.byref(_How(flags, 0, _RESOLVE_NO_SYMLINKS))


@cache
def _syscall() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_long
    return call


def open_by_component(above: int, path: str, flags: int) -> int:
    """Open like ``open_at_once``, with one system call for each component."""
    *directories, last = [name for name in path.split("/") if name] or ["."]
    fd = os.open("/" if path.startswith("/") else ".", DIRECTORY, dir_fd=None if path[:1] == "/" else above)
    try:
        for name in directories:
            inner = _open_component(fd, name, DIRECTORY)
            os.close(fd)
            fd = inner
        return _open_component(fd, last, flags)
    finally:
        os.close(fd)


def _open_component(above: int, name: str, flags: int) -> int:
    if flags & os.O_PATH and _is_link(above, name):  # O_PATH would open the link itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
    except NotADirectoryError:
        if _is_link(above, name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _is_link(above: int, name: str) -> bool:
    try:
        return modes.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
