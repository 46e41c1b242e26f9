"""The part of GSSAPI (RFC 2744) that a client needs, from the system's Kerberos library.

It calls the functions through ``ctypes``: the packages that wrap them exist only as source code on Linux, so
each installation would need a compiler and Kerberos' headers. The interface of the library is a standard and
has been stable for decades. This module releases all memory that the library allocates. Calls may wait for
the KDC; they do not hold the interpreter's lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any, Final, Self

from state.errors import LoginFailed


LIBRARY: Final = "libgssapi_krb5.so.2"
KERBEROS_LIBRARY: Final = "libkrb5.so.3"
_CONTINUE_NEEDED: Final = 1
_FAILURE: Final = 0xFFFF0000
_NO_CREDENTIALS: Final = 7 << 16
_INITIATE: Final = 1
_MUTUAL, _REPLAY, _SEQUENCE, _CONFIDENTIALITY, _INTEGRITY = 2, 4, 8, 16, 32
_FLAGS: Final = _MUTUAL | _REPLAY | _SEQUENCE | _CONFIDENTIALITY | _INTEGRITY
_GSS_CODE, _MECHANISM_CODE = 1, 2
_KERBEROS_OID: Final = bytes.fromhex("2a864886f712010202")
_PRINCIPAL_OID: Final = bytes.fromhex("2a864886f71201020201")


class GssapiError(Exception):
    """A call failed. ``code`` is the error of the Kerberos library, 0 if only GSSAPI has one."""

    def __init__(self, reason: str, code: int = 0, *, lacks_credentials: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.lacks_credentials = lacks_credentials


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _OidSet(Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Buffer(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Element(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


def _oid(encoded: bytes) -> _Oid:
    return _Oid(len(encoded), ctypes.cast(ctypes.c_char_p(encoded), c_void_p))


_KERBEROS: Final = _oid(_KERBEROS_OID)
_PRINCIPAL: Final = _oid(_PRINCIPAL_OID)


@cache
def _library() -> ctypes.CDLL:
    """Return the library with the types of its arguments; raise LoginFailed if it is not installed."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise LoginFailed(
            "the Kerberos library of the system is missing",
            library=LIBRARY,
            reason=str(error),
            hint="Install it (Debian: libgssapi-krb5-2; RHEL: krb5-libs).",
        ) from error
    u32, handle, buffer = POINTER(c_uint32), POINTER(c_void_p), POINTER(_Buffer)
    oid, number = POINTER(_Oid), POINTER(c_int)
    for name, arguments in {
        "gss_import_name": [u32, buffer, oid, handle],
        "gss_acquire_cred_from": [
            u32,
            c_void_p,
            c_uint32,
            POINTER(_OidSet),
            c_int,
            POINTER(_Store),
            handle,
            c_void_p,
            u32,
        ],
        "gss_init_sec_context": [
            u32,
            c_void_p,
            handle,
            c_void_p,
            oid,
            c_uint32,
            c_uint32,
            c_void_p,
            buffer,
            c_void_p,
            buffer,
            u32,
            u32,
        ],
        "gss_wrap": [u32, c_void_p, c_int, c_uint32, buffer, number, buffer],
        "gss_unwrap": [u32, c_void_p, buffer, buffer, number, u32],
        "gss_display_status": [u32, c_uint32, c_int, oid, u32, buffer],
        "gss_release_buffer": [u32, buffer],
        "gss_release_name": [u32, handle],
        "gss_release_cred": [u32, handle],
        "gss_delete_sec_context": [u32, handle, c_void_p],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_uint32
    return library


class Context:
    """A security context with a service. Not thread-safe; ``close`` releases it."""

    def __init__(self, service: str, client: str | None, store: Mapping[str, str]) -> None:
        """Begin a context as ``client`` (None:
        the first principal of the store) with credentials of ``store``.

        The keys of ``store`` are those of the library: ``client_keytab`` and ``ccache``. If it is empty, the
        process' own ticket cache applies.
        """
        self._handle = c_void_p()
        self._service, self._client, self._store = service, client, store
        self._library = _library()
        self.is_established = False

    def step(self, token: bytes) -> bytes:
        """Return the next token for the service; raise GssapiError."""
        minor, output = c_uint32(), _Buffer()
        with _name(self._service) as service, _credentials(self._client, self._store) as credentials:
            major = self._library.gss_init_sec_context(
                byref(minor),
                credentials,
                byref(self._handle),
                service,
                byref(_KERBEROS),
                _FLAGS,
                0,
                None,
                byref(_buffer(token)),
                None,
                byref(output),
                None,
                None,
            )
        result = _take(output)
        _check(major, minor)
        self.is_established = not major & _CONTINUE_NEEDED
        return result

    def wrap(self, message: bytes, *, encrypted: bool) -> bytes:
        """Return a signed, or signed and encrypted, token for a message; raise GssapiError."""
        minor, state, output = c_uint32(), c_int(), _Buffer()
        major = self._library.gss_wrap(
            byref(minor),
            self._handle,
            int(encrypted),
            0,
            byref(_buffer(message)),
            byref(state),
            byref(output),
        )
        result = _take(output)
        _check(major, minor)
        if encrypted and not state.value:
            raise GssapiError("the library did not encrypt the message")
        return result

    def unwrap(self, token: bytes) -> tuple[bytes, bool]:
        """Return the message of a token and whether it has encryption; raise GssapiError if it was changed
        on its way.
        """
        minor, state, output = c_uint32(), c_int(), _Buffer()
        major = self._library.gss_unwrap(
            byref(minor), self._handle, byref(_buffer(token)), byref(output), byref(state), None
        )
        result = _take(output)
        _check(major, minor)
        return result, bool(state.value)

    def close(self) -> None:
        """Release the context; closing twice is harmless."""
        if self._handle.value is not None:
            self._library.gss_delete_sec_context(byref(c_uint32()), byref(self._handle), None)
        self._handle = c_void_p()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def destroy_ticket_cache(name: str) -> None:
    """Destroy a ticket cache; harmless if it does not exist."""
    try:
        library = ctypes.CDLL(KERBEROS_LIBRARY)
    except OSError:
        return  # then there are no tickets either
    context, cache = c_void_p(), c_void_p()
    if library.krb5_init_context(byref(context)) != 0:
        return
    if library.krb5_cc_resolve(context, name.encode(), byref(cache)) == 0:
        library.krb5_cc_destroy(context, cache)
    library.krb5_free_context(context)


@contextmanager
def _name(principal: str) -> Iterator[c_void_p]:
    library, minor, name = _library(), c_uint32(), c_void_p()
    _check(
        library.gss_import_name(
            byref(minor), byref(_buffer(principal.encode())), byref(_PRINCIPAL), byref(name)
        ),
        minor,
    )
    try:
        yield name
    finally:
        library.gss_release_name(byref(minor), byref(name))


@contextmanager
def _credentials(client: str | None, store: Mapping[str, str]) -> Iterator[c_void_p]:
    """Yield credentials;
    the library obtains a ticket if the store's is missing, expired or past half of its life.
    """
    library, minor, credentials = _library(), c_uint32(), c_void_p()
    elements = (_Element * len(store))(
        *(_Element(key.encode(), value.encode()) for key, value in store.items())
    )
    with nullcontext() if client is None else _name(client) as name:
        major = library.gss_acquire_cred_from(
            byref(minor),
            name,
            0xFFFFFFFF,
            byref(_OidSet(1, ctypes.pointer(_KERBEROS))),
            _INITIATE,
            byref(_Store(len(store), elements)) if store else None,
            byref(credentials),
            None,
            None,
        )
    _check(major, minor)
    try:
        yield credentials
    finally:
        library.gss_release_cred(byref(minor), byref(credentials))


def _buffer(data: bytes) -> _Buffer:
    """Return a buffer over ``data``, which it keeps alive; the library only reads it."""
    buffer = _Buffer(len(data), ctypes.cast(ctypes.c_char_p(data), c_void_p))
    buffer.data = data
    return buffer


def _take(buffer: _Buffer) -> bytes:
    """Return the bytes of a buffer of the library and release it."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    _library().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return data


def _check(major: int, minor: c_uint32) -> None:
    if not major & _FAILURE:
        return
    code = ctypes.c_int32(minor.value).value
    texts = [_describe(major, _GSS_CODE), _describe(minor.value, _MECHANISM_CODE) if code else ""]
    reason = ": ".join(text for text in texts if text)
    raise GssapiError(reason, code, lacks_credentials=major & _FAILURE == _NO_CREDENTIALS)


def _describe(status: int, kind: int) -> str:
    more, minor, text = c_uint32(), c_uint32(), _Buffer()
    mechanism: Any = byref(_KERBEROS)
    major = _library().gss_display_status(byref(minor), status, kind, mechanism, byref(more), byref(text))
    described = _take(text).decode(errors="replace").strip()
    return "" if major & _FAILURE else described
