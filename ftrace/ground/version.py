"""The version of the package, as in pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"
