"""What type checkers and editors read of the functions of arrays: stubs.

Inside of ftrace a value may be an array, a traced one or a number, and annotations say
`Value`, which is any type; who calls a function is told `ArrayLike` and `Array`. The
stubs are made of the signatures of the public functions:

    def sum(a: Value, axis: Axis = None, …) -> Any            what is written
    def sum(a: ArrayLike, axis: int | … = None, …) -> Array   what the stub says

`Any` is an `Array` where something is returned, but for functions that take functions,
and those of `TREES`. tests/surface/test_types.py calls them and looks.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import ftrace
from ftrace.numpy.functions import PublishedUfunc
from ftrace.trace.arrays.array import METHODS, RENAMED, Array, functions
from ftrace.trace.eager.function_objects import Eager
from ftrace.typing import ArrayLike, DTypeLike

PACKAGE = Path(ftrace.__file__).parent
NOTE = "# Made by docs/generate.py of the functions; do not edit."

#: The modules of which there are stubs.
MODULES = (
    "image", "numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "nn",
    "nn.initializers", "ops", "optim", "random", "scipy.cluster.vq", "scipy.fft",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "scipy.signal", "scipy.special",
    "scipy.stats",
)  # fmt: skip

#: Packages that only gather names: ftrace itself, and what JAX has as one.
GATHERED = ("", "scipy")

#: Functions that return what is no array, or not only, though they take no function.
TREES = (
    "lax.linalg.svd", "lax.stop_gradient", "nn.logsumexp", "numpy.atleast_1d",
    "numpy.atleast_2d", "numpy.atleast_3d", "numpy.dtype", "numpy.einsum_path",
    "numpy.finfo", "numpy.gradient", "numpy.iinfo", "numpy.linalg.qr",
    "numpy.linalg.svd", "numpy.load", "numpy.promote_types", "numpy.result_type",
    "numpy.unique", "scipy.linalg.eigh",
    "scipy.linalg.expm_frechet", "scipy.linalg.svd", "scipy.special.logsumexp",
)  # fmt: skip

#: Names of annotations, and what they are to a caller.
_MEANT: dict[str, Any] = {"Value": ArrayLike, "Dtype": DTypeLike | None}


class _Stub:
    """The text of one stub, and what it imports."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.imports: dict[str, set[str]] = {}
        self.type_variables: set[str] = set()
        self.lines: list[str] = []

    def text(self) -> str:
        rows = [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self.imports.items())
        ]
        rows += [f'{name} = TypeVar("{name}")' for name in sorted(self.type_variables)]
        return "\n".join([NOTE, "", *rows, "", *self.lines, ""])

    def need(self, module: str, name: str, alias: str = "") -> str:
        shown = f"{name} as {alias}" if alias else name
        self.imports.setdefault(module, set()).add(shown)
        return alias or name

    def type(self, value: Any, returned: bool = False) -> str:
        """A type as source; `Any` that is returned is an Array."""
        if value is Any:
            return self.type(Array) if returned else self.need("typing", "Any")
        if value in (ArrayLike, DTypeLike):
            name = "ArrayLike" if value == ArrayLike else "DTypeLike"
            return self.need("ftrace.typing", name, f"_{name}")
        if value in (None, type(None)):
            return "None"
        if value is Ellipsis:
            return "..."
        if isinstance(value, TypeVar):
            self.need("typing", "TypeVar")
            self.type_variables.add(value.__name__)
            return value.__name__
        if isinstance(value, list):
            return f"[{', '.join(self.type(x, returned) for x in value)}]"
        origin, parts = typing.get_origin(value), typing.get_args(value)
        if origin in (typing.Union, types.UnionType):
            return self._union(parts, returned)
        if origin is typing.Literal:
            self.need("typing", "Literal")
            return f"Literal[{', '.join(map(repr, parts))}]"
        if origin is not None:
            shown = self._class(origin, generic=True)
            returned = returned and origin in (tuple, list)
            inner = ", ".join(self.type(x, returned) for x in parts)
            return f"{shown}[{inner}]"
        return self._class(value)

    def _union(self, parts: Iterable[Any], returned: bool) -> str:
        parts = list(parts)
        named = [x for x in (ArrayLike, DTypeLike) if {*typing.get_args(x)} <= {*parts}]
        inside = {part for x in named for part in typing.get_args(x)}
        rest = [x for x in parts if x not in inside]
        shown = [self.type(x, returned) for x in (*named, *rest)]
        return " | ".join(dict.fromkeys(shown))

    def _class(self, value: Any, generic: bool = False) -> str:
        module, name = value.__module__, value.__qualname__
        if module == "builtins":
            return self.need("builtins", name, f"_{name}")
        if value is Array:
            return self.need("ftrace", "Array", "_Array")
        if "<" in name or "." in name:
            return self.need("typing", "Any")
        if module == f"ftrace.{self.module}":
            return name  # it is declared here
        bare = name in ("dtype", "ndarray") and not generic
        end = f"[{self.need('typing', 'Any')}]" if bare else ""
        return self.need(module, name, f"_{name}") + end


def annotation(function: Any, written: Any) -> Any:
    """The type that an annotation means; Any where that is not to be found out."""
    written = getattr(written, "__forward_arg__", written)  # of a NamedTuple
    if not isinstance(written, str):
        return Any if written is inspect.Parameter.empty else written
    known = vars(import_module(inspect.unwrap(function).__module__))
    try:
        return eval(written, {**known, **_MEANT})
    except (NameError, TypeError, AttributeError):
        return Any


def _default(value: Any) -> str:
    plain = value is None or type(value) in (bool, int, float, str)
    finite = plain and f"{value}" not in ("nan", "inf", "-inf")
    return repr(value) if finite else "..."


def parameters(stub: _Stub, function: Any, drop: int = 0) -> tuple[str, str]:
    """The parameters of a function and its result, as source."""
    # As it is written, which is not what is shown of it: that is the stub.
    signature = inspect.signature(getattr(function, "behind", function))
    shown: list[str] = []
    kinds = inspect.Parameter
    latest = kinds.POSITIONAL_ONLY
    given = list(signature.parameters.values())[drop:]
    for p in given:
        if latest is kinds.POSITIONAL_ONLY and p.kind is not latest and shown:
            shown.append("/")
        if p.kind is kinds.KEYWORD_ONLY and latest not in (
            kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL,
        ):  # fmt: skip
            shown.append("*")
        latest = p.kind
        stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(p.kind, "")
        text = f"{stars}{p.name}: {stub.type(annotation(function, p.annotation))}"
        if p.default is not p.empty:
            text += f" = {_default(p.default)}"
        shown.append(text)
    if shown and latest is kinds.POSITIONAL_ONLY:
        shown.append("/")
    result = annotation(function, signature.return_annotation)
    name = f"{stub.module}.{getattr(function, '__name__', '')}"
    trees = name in TREES or signature.return_annotation == "Tree"
    arrays = "Callable" not in " ".join(shown) and not trees
    return ", ".join(shown), stub.type(result, returned=arrays)


def _home(module: str, name: str, value: Any) -> str | None:
    """Where a public name is written, if in a module of ours below."""
    package = import_module(f"ftrace.{module}")
    for inner in pkgutil.iter_modules(getattr(package, "__path__", ())):
        found = import_module(f"{package.__name__}.{inner.name}")
        if name in getattr(found, "__all__", ()) and vars(found).get(name) is value:
            return found.__name__
    return None


def _entry(stub: _Stub, name: str, value: Any) -> str:
    if isinstance(value, types.ModuleType):
        if getattr(value, "__file__", None) is None:
            return _space(stub, name, value)
        stub.need(value.__name__.rpartition(".")[0], name, name)
        return ""
    if isinstance(value, Eager) or inspect.isfunction(value):
        taken, result = parameters(stub, value)
        if not isinstance(value, PublishedUfunc):
            return f"def {name}({taken}) -> {result}: ..."
        stub.need("ftrace.numpy.functions", "PublishedUfunc", "_PublishedUfunc")
        return (
            f"class _{name}(_PublishedUfunc):\n"
            f"    def __call__(  # type: ignore[override]\n"
            f"        self, {taken}) -> {result}: ...\n"
            f"{name}: _{name}"
        )
    if (home := _home(stub.module, name, value)) is not None:
        stub.need(home, name, name)
        return ""
    if value is Array:
        return f"{name} = {stub.type(Array)}"
    if isinstance(value, type) and value.__module__ == f"ftrace.{stub.module}":
        own = value.__name__
        return _declared(stub, value) if name == own else f"{name} = {own}"
    if isinstance(value, type) and value.__module__.startswith("ftrace."):
        own = value.__qualname__
        if name != own:  # no import of another name is seen outside of a stub
            return f"{name} = {stub.need(value.__module__, own, f'_{own}')}"
        stub.need(value.__module__, own, own)
        return ""
    # To `isinstance` an alias is a class, too, in Python 3.10.
    is_class = issubclass(type(value), type)
    kind = f"type[{stub.need('typing', 'Any')}]" if is_class else ""
    if not kind and type(value) in (int, float, str, bool, tuple, type(None)):
        kind = "None" if value is None else stub.type(type(value))
    return f"{name}: {kind or stub.need('typing', 'Any')}"


def _space(stub: _Stub, name: str, value: types.ModuleType) -> str:
    """A module without a file, as a class of its functions."""
    rows = [f"class _{name}({stub.need('types', 'ModuleType', '_ModuleType')}):"]
    for inner in sorted(n for n in vars(value) if n[0] != "_"):
        taken, result = parameters(stub, vars(value)[inner])
        rows += ["    @staticmethod", f"    def {inner}({taken}) -> {result}: ..."]
    return "\n".join([*rows, f"{name}: _{name}"])


def _declared(stub: _Stub, value: Any) -> str:
    """A class of the module itself: an enumeration, or a record."""
    if issubclass(value, Enum):
        base, rows = (
            stub.need("enum", "Enum", "_Enum"),
            [f"{member.name} = {member.value!r}" for member in value],
        )
    else:
        base, rows = (
            stub.need("typing", "NamedTuple", "_NamedTuple"),
            [
                f"{name}: {stub.type(annotation(value, kind), returned=True)}"
                for name, kind in value.__annotations__.items()
            ],
        )
    return "\n    ".join([f"class {value.__name__}({base}):", *rows])


def _wanted_inside(module: str) -> Iterator[str]:
    """Names that other modules of ours import of a module, public or not."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        if f"from ftrace.{module} import" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == f"ftrace.{module}":
                yield from (each.name for each in node.names if each.name != "*")


def stub_of(module: str) -> str:
    """The stub of a module."""
    found = import_module(f"ftrace.{module}")
    space = vars(found)
    names = [n for n in space.get("__all__") or dir(found) if n[0] != "_"]
    names += [n for n in _wanted_inside(module) if n in space and n not in names]
    stub = _Stub(module)
    for name in sorted(set(names)):
        line = _entry(stub, name, getattr(found, name))
        stub.lines += [line] if line else []
    return stub.text()


def gathered_stub(module: str) -> str:
    """The stub of a package that only gathers names: where each of them is written.

    What it imports says so by itself; of what is loaded later its tables say it.
    """
    found = import_module(".".join(filter(None, ("ftrace", module))))
    space, package, stub = vars(found), found.__name__, _Stub(module)
    for node in ast.walk(ast.parse(inspect.getsource(found))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "ftrace"
        ):
            for shown in (x for x in node.names if (x.asname or x.name)[0] != "_"):
                stub.need(node.module or "", shown.name, shown.asname or shown.name)
    for name, home in space.get("_HOMES", {}).items():
        stub.need(f"ftrace.{home}", name, name)
    known = {row.split(" as ")[-1] for rows in stub.imports.values() for row in rows}
    public = space.get("__all__", ())
    for name in {*public, *space.get("_LATER", ())} - known:  # modules
        stub.need(package, name, name)
    if public:
        stub.lines = ["__version__: str", f"__all__ = {public}"]
    return stub.text()


# Methods of arrays.

_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"


def methods_stub() -> str:
    """The operators and methods that arrays have, as functions of `ftrace.numpy`."""
    stub = _Stub("numpy")
    array, like = stub.type(Array), stub.type(ArrayLike)
    binary = f"    def __{{}}__(self, other: {like}, /) -> {array}: ..."
    lines = ["class Methods:"]
    for name in _OPERATORS.split():
        for side in ("", "r"):
            lines += [binary.format(side + name)]
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        lines += [binary.format(name) + ignored]
    for name in ("neg", "pos", "abs", "invert"):
        lines += [f"    def __{name}__(self) -> {array}: ..."]
    lines += [f"    __divmod__: {stub.need('typing', 'Any')}", "    __rdivmod__: Any"]
    at = stub.need("ftrace.numpy.at", "At", "_At")
    for name in ("T", "mT", "real", "imag", "at"):
        kind = at if name == "at" else array
        lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
    for name in (*METHODS, *RENAMED):
        taken, result = parameters(stub, functions[RENAMED.get(name, name)], 1)
        taken = taken.removeprefix("/, ").removeprefix("/")
        lines += [f"    def {name}(self{taken and f', {taken}'}) -> {result}: ..."]
    stub.lines = lines
    return stub.text()


def stubs() -> dict[Path, str]:
    """The text that each stub should have."""
    made: dict[Path, str] = {}
    for module in MODULES:
        path = PACKAGE.joinpath(*module.split("."))
        file = path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
        made[file] = stub_of(module)
    for module in GATHERED:
        made[PACKAGE / module / "__init__.pyi"] = gathered_stub(module)
    made[PACKAGE / "trace" / "arrays" / "methods.pyi"] = methods_stub()
    return made
