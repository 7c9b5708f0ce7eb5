"""Builds the documentation as a site: `python -m docs.site [FOLDER]`, by `make site`.

The pages are plain Markdown, to be read anywhere. What a site needs besides is made
here, in a copy of them under `build/site`:

    index.md     its lists of links become the navigation
    api.md       a page for each module of its tables, from the docstrings
    links        to files that stand outside of `docs/` lead to copies of these

Sphinx is then run with warnings as errors.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import types
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: Files outside of this folder that pages link to, and their names in the site.
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "measuring.md",
}
#: A row of the tables in `api.md`.
MODULE = re.compile(r"^\| `(ftrace[\w.]*)` \|", re.MULTILINE)
LINK = re.compile(r"\]\(([\w./-]+\.md)\)")


def write_sources(folder: Path) -> None:
    """All that Sphinx reads."""
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(DOCS)
        if path.is_file() and path.suffix in (".md", ".png", ".svg", ".css"):
            text = path.read_bytes()
            if path.suffix == ".md":
                text = for_site(name.as_posix(), text.decode()).encode()
            _write(folder / name, text)
    for source, name in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        _write(folder / name, for_site(name, text).encode())
    modules = MODULE.findall((DOCS / "api.md").read_text(encoding="utf-8"))
    for module, page in module_pages(modules):
        _write(folder / "api" / f"{module}.rst", page.encode())
    shutil.copy2(DOCS / "conf.py", folder / "conf.py")


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def for_site(name: str, page: str) -> str:
    """The page with links as the site has them, and with its part of the navigation."""
    for source, target in OUTSIDE.items():
        page = page.replace(f"](../{source}", f"]({target}")
    page = page.replace("](docs/", "](")
    if name == "index.md":
        return re.sub(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", _section, page)
    if name == "api.md":
        modules = "\n".join(f"api/{module}" for module in MODULE.findall(page))
        page = MODULE.sub(r"| [`\1`](api/\1.rst) |", page)
        return f"{page}\n```{{toctree}}\n:hidden:\n\n{modules}\n```\n"
    if name.endswith("/index.md"):
        pages = "\n".join(dict.fromkeys(LINK.findall(page)))
        return f"{page}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    return page


def _section(found: re.Match[str]) -> str:
    """A section of the index, and the navigation to the pages that it links to."""
    links = re.findall(r"\[([^]]+)" + LINK.pattern, found[2])
    caption, pages = found[1], "\n".join(f"{text} <{page}>" for text, page in links)
    tree = f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n\n"
    return f"{found[0].rstrip()}\n\n{tree}"


# Pages of modules.


def module_pages(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, page in reStructuredText) of each module.

    What several of them have is described by the first, and the others lead there.
    """
    described: dict[int, str] = {}
    for module in [import_module(name) for name in names]:
        groups: dict[str, list[str]] = {}
        constants: list[str] = []
        values = {name: getattr(module, name) for name in public_names(module, names)}
        for name in sorted(values, key=lambda n: _is_other_name(n, values[n])):
            described.setdefault(id(values[name]), f"{module.__name__}.{name}")
        for name, value in sorted(values.items(), key=lambda item: item[0].lower()):
            if not callable(value) or home_of(value).split(".")[0] == "numpy":
                constants.append(f"``{name}``")
                continue
            first, full = described[id(value)], f"{module.__name__}.{name}"
            entry = _entry(name, value, first if first != full else "")
            groups.setdefault(_heading(module, name), []).append(entry)
        parts = [_title(module.__name__, "="), *_summary(module)]
        for heading, entries in sorted(groups.items()):
            parts += [_title(heading, "-")] if len(groups) > 1 else []
            parts += entries
        if constants:
            parts += [
                _title("Constants, and what is NumPy's", "-"),
                ", ".join(constants),
            ]
        yield module.__name__, "\n\n".join(parts) + "\n"


def _is_other_name(name: str, value: Any) -> bool:
    """An alias: what it stands for has the name of its own."""
    return getattr(value, "__name__", name) != name


def home_of(value: Any) -> str:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def public_names(module: types.ModuleType, described: Sequence[str]) -> list[str]:
    """What a module has to offer, but for modules in it and what it is made of."""
    listed = module.__name__ != "ftrace" and hasattr(module, "__all__")
    names = module.__all__ if listed else dir(module)
    found: list[str] = []
    for name in names:
        value = getattr(module, name)
        home = home_of(value)
        foreign = (
            not listed
            and home
            and (
                home.split(".")[0] not in ("ftrace", "numpy")
                or (home in described and home != module.__name__)
            )
        )
        if not (name.startswith("_") or foreign or isinstance(value, types.ModuleType)):
            found.append(name)
    return found


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _summary(module: types.ModuleType) -> Iterator[str]:
    yield f".. currentmodule:: {module.__name__}"
    text = (inspect.getdoc(module) or "").partition("\n")[0]
    if text:
        yield re.sub(r"`+([^`]+)`+", r"``\1``", text)


def _heading(module: types.ModuleType, name: str) -> str:
    """The subject of the file of a package that a name is from."""
    value, inside = getattr(module, name), f"{module.__name__}."
    homes = [home_of(value)] + [
        home
        for home, loaded in sorted(sys.modules.items())
        if home.startswith(inside) and name in getattr(loaded, "__all__", ())
    ]
    home = homes[-1]
    flat = module.__name__ == "ftrace"  # each of its names is from another file
    if flat or home == module.__name__ or home not in sys.modules:
        return "More"
    first = (inspect.getdoc(sys.modules[home]) or home).partition("\n")[0]
    return re.split(r"[.:;]( |$)", first.replace("`", ""))[0]


def _entry(name: str, value: Any, first: str) -> str:
    """What is described: here, or under the name `first`."""
    kind = "class" if isinstance(value, type) else "function"
    if first:
        return f".. py:{kind}:: {name}\n\n   The same as :py:obj:`{first}`."
    return f".. auto{kind}:: {name}" + "\n   :members:" * (kind == "class")


def main(folder: str = "build/site") -> int:
    from sphinx.cmd.build import main as build

    source, made = Path(folder) / "source", Path(folder) / "html"
    for old in (source, made):  # Sphinx does not see when a docstring has changed
        shutil.rmtree(old, ignore_errors=True)
    write_sources(source)
    return build(["-W", "--keep-going", "-q", "-b", "html", str(source), str(made)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
