"""Writes the outputs that the documentation shows, its pictures, and generated pages.

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
        run = run_page(path)
        new = updated(page, run.printed)
        if new != page:
            path.write_text(new, encoding="utf-8")
        for name, picture in run.pictures.items():
            (path.parent / name).write_bytes(picture)
        state = "current" if new == page else "written"
        sys.stdout.write(f"{path.name}: {state}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
