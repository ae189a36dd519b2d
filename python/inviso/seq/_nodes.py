"""Tokens that go to other nodes: in headers of any carrier, or in a child's environment.

A header is ``01-`` and, in base64 for URLs, the external term format of
``{Flags, Label, Serial, From, Previous, Carrier}``: the token as ``get_token/0`` returns it, pids with the name and
creation of their node, and a pid that stands for the carrier. A header with any other content is rejected.
"""

from __future__ import annotations

import binascii
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

from inviso import _native
from inviso.errors import BadArg, shown

__all__ = ["HEADER", "LIMIT", "VARIABLE", "extract", "from_environment", "inject", "rejected", "to_environment"]

HEADER = "inviso-seq-trace"
"""The name of the header."""

VARIABLE = "INVISO_SEQ_TRACE"
"""The name of the environment variable."""

LIMIT = 8192
"""The largest number of characters in a header."""

_VERSION = "01-"
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_FROM_URLS = bytes.maketrans(b"-_", b"+/")

_Carrier = TypeVar("_Carrier")

_lock = threading.Lock()
_rejected = 0


def inject(carrier: _Carrier, setter: Callable[[_Carrier, str, str], object] | None = None) -> _Carrier:
    """Sends the caller's token with ``carrier``, an object that has headers.

    This counts as sending a message whose receiver isn't known yet. The serial advances. With the flag ``send`` the
    system tracer gets ``("send", serial, caller, carrier, ("headers", carrier))`` after the header is set. There
    ``carrier`` is a Pid of kind ``"queue"``, which stands for these headers here and where they arrive. If the caller
    has no token, nothing is sent, and an older header is removed. Exceptions of the carrier or the setter reach the
    caller; then nothing was sent.

    Args:
        carrier: a dict of headers, or any other mutable mapping; with a setter any object.
        setter: called as ``setter(carrier, name, value)``; name and value are str.

    Returns:
        The carrier.

    Raises:
        BadArg: ``carrier`` is not a mutable mapping and there is no setter, or the setter can't be called.

    >>> from inviso import seq_trace
    >>> _ = seq_trace.reset_trace(), seq_trace.set_token("label", "order 7")
    >>> headers = inject({})
    >>> list(headers), seq_trace.get_token("serial")
    (['inviso-seq-trace'], ('serial', (0, 1)))
    >>> _ = seq_trace.set_token(None)
    >>> inject(headers)
    {}
    """
    where = "inject/2"
    if setter is not None and not callable(setter):
        raise BadArg(
            where, "setter", f"{shown(setter)} can't be called; pass a function of carrier, name and value, or None"
        )
    if setter is None and not isinstance(carrier, MutableMapping):
        raise BadArg(where, "carrier", f"{type(carrier).__name__} is not a mutable mapping; pass one, or a setter")
    with current() as value:
        if setter is not None:
            if value is not None:
                setter(carrier, HEADER, value)
            return carrier
        assert isinstance(carrier, MutableMapping)
        for name in [name for name in carrier if _is_header(name)]:
            with suppress(KeyError):  # a mapping that ignores case, or that has several values of a name
                del carrier[name]
        if value is not None:
            carrier[HEADER] = value
    return carrier


def extract(
    carrier: Any,
    getter: Callable[[Any, str], Any] | None = None,
    *,
    without: Literal["clear", "keep"] = "clear",
) -> bool:
    """Takes the token that came with ``carrier``: it becomes the caller's token, by the serial algorithm.

    This counts as receiving a message. With the flag ``receive`` the system tracer gets
    ``("receive", serial, sender, caller, ("headers", carrier))``; sender and carrier are pids of another node. A
    carrier without a token empties the caller's, as a message without a token does. A header that is too long
    (:data:`LIMIT`), of another version or malformed counts as missing; :func:`rejected` counts these. An atom that
    isn't known here arrives as a str.

    Args:
        carrier: a mapping of headers, in upper or lower case; or pairs of names and values, str or bytes; with a getter
            any object.
        getter: called as ``getter(carrier, name)``; returns str, bytes, a list of them, or None.
        without: for a carrier without a token: ``"clear"`` empties the caller's token, ``"keep"`` keeps it.

    Returns:
        Whether there was a token.

    Raises:
        BadArg: ``carrier`` is neither a mapping nor pairs and there is no getter, the getter can't be called, or
            ``without`` is another word.

    >>> from inviso import seq_trace
    >>> _ = seq_trace.set_token("label", "order 7")
    >>> headers = inject({})
    >>> _ = seq_trace.set_token(None)
    >>> extract(headers), seq_trace.get_token("label")
    (True, ('label', 'order 7'))
    >>> extract({}), seq_trace.get_token()
    (False, None)
    """
    where = "extract/2"
    if getter is not None and not callable(getter):
        raise BadArg(where, "getter", f"{shown(getter)} can't be called; pass a function of carrier and name, or None")
    if without not in ("clear", "keep"):
        raise BadArg(where, "without", f"{shown(without)} is neither 'clear' nor 'keep'; pass one of them")
    found = _values(getter(carrier, HEADER)) if getter is not None else list(_found(where, carrier))
    return take(found, without)


def rejected() -> int:
    """The number of headers and environment variables without a valid token, and of tokens that are too long for a
    header of :data:`LIMIT` characters, since the program began.

    >>> before = rejected()
    >>> extract({"inviso-seq-trace": "99-nonsense"}), rejected() - before
    (False, 1)
    """
    return _rejected


def to_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Makes the environment of a child process, with the caller's token for :func:`from_environment`. This counts as
    sending a message, as with :func:`inject`.

    Args:
        env: the other variables; None for the environment of this program.

    Raises:
        BadArg: ``env`` is not a mapping.

    >>> from inviso import seq_trace
    >>> _ = seq_trace.set_token("label", "order 7")
    >>> list(to_environment({}))
    ['INVISO_SEQ_TRACE']
    >>> _ = seq_trace.set_token(None)
    >>> to_environment({"LANG": "C"})
    {'LANG': 'C'}
    """
    if env is not None and not isinstance(env, Mapping):
        raise BadArg("to_environment/1", "env", f"{shown(env)} is not a mapping; pass one of names to values, or None")
    made = dict(os.environ if env is None else env)
    made.pop(VARIABLE, None)
    with current() as value:
        if value is not None:
            made[VARIABLE] = value
    return made


def from_environment() -> bool:
    """Takes the token from the parent program's :func:`to_environment`. This counts as receiving a message, as with
    :func:`extract`. The variable is removed, so that no child of this program takes it again. Without a variable the
    caller's token stays as it is.

    Returns:
        Whether there was a token.

    >>> from_environment()
    False
    """
    value = os.environ.pop(VARIABLE, None)
    return take([] if value is None else [value], "keep")


@contextmanager
def current() -> Iterator[str | None]:
    """Sends the caller's token with a block, which gets the value of a header; None without a token, or if the token is
    too long for a header. A block that raises has sent nothing.
    """
    sending = _native.seq.inject()
    value = None if sending is None else _encoded(sending.token)
    if sending is not None and value is None:
        sending.take_back()
        reject()
        sending = None
    with completed(sending):
        yield value


@contextmanager
def completed(sending: _native.seq.SeqSending | None) -> Iterator[None]:
    """Completes the sending after its block; takes it back if the block raises."""
    try:
        yield
    except BaseException:
        if sending is not None:
            sending.take_back()
        raise
    if sending is not None:
        sending.sent()


def _encoded(token: bytes) -> str | None:
    text = binascii.b2a_base64(token, newline=False).rstrip(b"=").translate(_FOR_URLS)
    value = _VERSION + text.decode("ascii")
    return value if len(value) <= LIMIT else None


def take(values: list[Any], without: str) -> bool:
    """Receives the token of a header, if its only value is a token."""
    if values:
        token = _decoded(values[0]) if len(values) == 1 else None
        if token is not None and _native.seq.extract(token):
            return True
        reject()
    if without == "clear":
        _native.seq.extract(None)
    return False


@contextmanager
def apart() -> Iterator[None]:
    """Sets the caller's token aside during a block, and restores it afterwards."""
    aside = _native.seq.exchange(None)
    try:
        yield
    finally:
        _native.seq.exchange(aside)


def reject() -> None:
    global _rejected
    with _lock:
        _rejected += 1


def _decoded(value: Any) -> bytes | None:
    if isinstance(value, bytes) and len(value) <= LIMIT:
        value = value.decode("latin-1")
    if not isinstance(value, str) or len(value) > LIMIT or not value.startswith(_VERSION):
        return None
    text = value[len(_VERSION) :]
    if not text or len(text) % 4 == 1 or not _WORD.issuperset(text):
        return None
    return binascii.a2b_base64(text.encode("ascii").translate(_FROM_URLS) + b"=" * (-len(text) % 4))


def _is_header(name: Any) -> bool:
    if isinstance(name, bytes):
        return name.lower() == HEADER.encode()
    return isinstance(name, str) and name.lower() == HEADER


def others(headers: Iterable[Any]) -> list[Any]:
    """The pairs of name and value without those of the token's header."""
    return [pair for pair in headers if not (isinstance(pair, (tuple, list)) and pair and _is_header(pair[0]))]


def _found(where: str, carrier: Any) -> Iterator[Any]:
    items = getattr(carrier, "items", None)
    pairs = items() if callable(items) else carrier
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise BadArg(
            where, "carrier", f"{type(carrier).__name__} is neither a mapping nor pairs; pass one, or a getter"
        )
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise BadArg(
                where, "carrier", f"{shown(pair)} is not a pair of a name and its value; pass a mapping, or a getter"
            )
        if _is_header(pair[0]):
            yield from _values(pair[1])


def _values(found: Any) -> list[Any]:
    if found is None:
        return []
    return list(found) if isinstance(found, (list, tuple)) else [found]
