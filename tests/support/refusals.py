"""What an error says itself, without the line of the user that stands below it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refuses(kind: type[BaseException], message: str) -> Generator[Any]:
    """A block that raises `kind`, in words that match.

    The line that an error of ours quotes is the test's own, where `message` may stand
    as well: `pytest.raises(match=...)` would find it there.
    """
    with pytest.raises(kind) as caught:
        yield caught
    said = getattr(caught.value, "message", None) or str(caught.value)
    assert re.search(message, said), f"{message!r} is not in {said!r}"
