"""Text for streams of any encoding."""

from __future__ import annotations

from typing import Any

__all__ = ["put"]


def put(stream: Any, text: str) -> None:
    """Writes a text. Characters that the stream's encoding lacks are escaped."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
