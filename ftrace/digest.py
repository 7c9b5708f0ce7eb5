"""SHA-256 of bytes.

OpenSSL's takes 3 ms to load and is five times as fast as Python's own: it is for what
is long, or for a process that has it in any case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Bytes from which on OpenSSL's is loaded.
LONG = 1 << 17
#: Where Python's own is: its name has changed with 3.12.
_HOMES = ("_sha2", "_sha256")


def _own() -> Callable[..., Any] | None:
    for home in _HOMES:
        try:
            return import_module(home).sha256
        except ImportError:
            continue
    return None


_short = _own()


def sha256(*parts: bytes) -> bytes:
    """The digest of the parts, one after the other."""
    if _short is None or "hashlib" in sys.modules or sum(map(len, parts)) >= LONG:
        state = import_module("hashlib").sha256()
    else:
        state = _short()
    for part in parts:
        state.update(part)
    return state.digest()
