"""A picture of a function: what it became, as a page to walk through.

    ft.viz(step)(params, x)         prints where the page is, and opens it

The page is one file that needs nothing else, no network either: the source, the graph
as it was traced and after each pass with the rules that fired, the kernels with their
schedule and code. What belongs together is lit together.
"""

from __future__ import annotations

import html
import json
import os
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.flatten_arguments import P, display_name, wraps
from ftrace.trace.pytree import tree
from ftrace.transforms.array_files import check_writable, read_path, replacing
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.viz import page_data
from ftrace.transforms.viz.explain import Explanation, explain

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("model.js", "layout.js", "canvas.js", "panels.js", "app.js")
#: Letters of a page that a notebook keeps inside itself; a larger one is linked to.
_INLINE = 8_000_000


@dataclass(frozen=True, eq=False)
class Picture:
    """A page about a function, in a file.

    Attributes:
      path: of the file.
      page: its text.
      explained: what it is about, as values.
    """

    path: Path
    page: str
    explained: Explanation

    def __repr__(self) -> str:
        return f"<picture of {self.explained.name}: {self.path}>"

    def _repr_html_(self) -> str:
        """In a notebook the page itself, or a link where it is large."""
        uri, name = self.path.as_uri(), html.escape(str(self.path))
        link = f'<a href="{html.escape(uri)}" target="_blank">{name}</a>'
        if len(self.page) > _INLINE:
            return link
        frame = (
            f'<iframe srcdoc="{html.escape(self.page)}" sandbox="allow-scripts" '
            'style="width:100%;height:720px;border:1px solid #8884;border-radius:8px">'
            "</iframe>"
        )
        return f"{frame}<br>{link}"


def viz(
    fun: Callable[P, Any],
    path: str | os.PathLike[str] | None = None,
    *,
    show: bool = True,
) -> Callable[P, Picture]:
    """A function that makes a page of what `fun` becomes: graph, passes, kernels.

    Args:
      fun: a function of arrays, under `jit` or not.
      path: the file, or the folder in which it is to be; by default a new one for files
        that are not cached.
      show: open the page in a browser, if the machine has one and a screen. In a
        notebook it stands below the cell.

    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s, as `explain` has:
      with arrays the program is run a few times, to tell how long each kernel takes. It
      prints where the page is, and returns a `Picture`.

    Raises:
      ArgumentError: `path` is no name of a file; arguments go into the second call.
      FileFormatError: the file cannot be written; before anything is traced.

    Example:
      >>> import os, tempfile
      >>> path = os.path.join(tempfile.mkdtemp(), "softmax.html")
      >>> picture = ft.viz(nn.softmax, path, show=False)(fnp.ones((4, 8)))
      /.../softmax.html
    """
    tree.check_callable(fun, "viz")
    named = None if path is None else read_path("viz", path, "viz(f)(*args)")

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Picture:
        jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
        chosen = None if named is None else _choose_path(named, display_name(jitted))
        explained = explain(jitted)(*args, **kwargs)
        page = _page(explained.name, _data(explained))
        picture = Picture(_write(page, explained.name, chosen), page, explained)
        if not _in_notebook():
            sys.stdout.write(f"{picture.path}\n")
            if show and _has_screen():
                webbrowser.open(picture.path.as_uri())
        return picture

    return call


def _data(explained: Explanation) -> dict[str, Any]:
    walked = page_data.walk(explained)
    tables = page_data.Tables(walked.roots, walked.names)
    facts = {
        "name": explained.name,
        "device": explained.device.name,
        "threads": explained.threads,
        "seconds": explained.seconds,
        "operations": sum(part.operations for part in explained.kernels),
        "bytes": sum(part.nbytes for part in explained.kernels),
        "arena": explained.program.arena,
        "mesh": "" if explained.divided is None else str(explained.divided.mesh),
        "limits": "" if explained.most is None else str(explained.most),
        "steps": walked.as_data(tables),
        "kernels": page_data.kernels_as_data(explained, tables),
        "collectives": page_data.collectives_as_data(explained.collectives, tables),
    }
    return facts | tables.as_data()  # which has all texts and lines by now


def _page(name: str, data: dict[str, Any]) -> str:
    parts = {
        "title": html.escape(f"{name} · ftrace"),
        "style": _file("style.css"),
        # No text in it may end the element that it is in. Dynamic sizes are texts.
        "data": json.dumps(data, separators=(",", ":"), default=str).replace(
            "<", "\\u003c"
        ),
        "scripts": "\n".join(f"<script>\n{text}\n</script>" for text in _scripts()),
    }
    page = _file("page.html")
    for key, text in parts.items():
        before, _, after = page.partition("{{" + key + "}}")
        page = before + text + after
    return page


@cache
def _scripts() -> tuple[str, ...]:
    """The library that places boxes with its licence, and what is ours."""
    library = _file("dagre.min.js").partition("//# sourceMappingURL")[0]
    licence = _file("dagre.LICENSE")
    return f"/*! dagre\n\n{licence}*/\n{library}", *map(_file, _SCRIPTS)


@cache
def _file(name: str) -> str:
    return (_PAGE / name).read_text("utf-8")


def _choose_path(path: Path, name: str) -> Path:
    """The file that is named, or one in the folder; it can be written."""
    chosen = path.absolute()
    chosen = chosen / _file_name(name) if chosen.is_dir() else chosen
    check_writable(chosen)
    return chosen


def _file_name(name: str) -> str:
    letters = "".join(
        c if c.isalnum() or c in "-_" else "" for c in name.replace(" ", "_")
    )
    return f"{letters or 'function'}.html"


def _write(page: str, name: str, path: Path | None) -> Path:
    """The path of a file that has the page."""
    chosen = path or Path(tempfile.mkdtemp(prefix="ftrace-"), _file_name(name))
    with replacing(chosen) as out:
        out.write(page.encode())
    return chosen


def _has_screen() -> bool:
    """Would a browser open a window? Those in a terminal would take it over."""
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True


def _in_notebook() -> bool:
    """Is what a cell returns shown as HTML?"""
    module: Any = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
