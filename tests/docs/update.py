"""Writes the outputs that the documentation shows, and the generated pages, anew.

python -m tests.docs.update            every page
python -m tests.docs.update README.md  some
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generate import generate
from tests.docs.pages import PAGES, run_page, updated


def main(names: list[str]) -> None:
    generate()
    for path in [Path(name).resolve() for name in names] or PAGES:
        page = path.read_text(encoding="utf-8")
        new = updated(page, run_page(path))
        if new != page:
            path.write_text(new, encoding="utf-8")
        state = "current" if new == page else "written"
        sys.stdout.write(f"{path.name}: {state}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
