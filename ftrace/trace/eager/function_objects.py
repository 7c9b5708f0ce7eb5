"""Functions as objects: what `help` shows of them, and what native code knows of them.

    exp = Eager(exp)      # what it does depends on the types of its arrays alone

Called in Python it is the function. A device may put its own code into the place of
`Eager.__call__`, and does what is known without Python's code. Its name, its docstring
and its parameters are those of what was written, or of a family; its types are those of
the stub; a pickle holds its name.
"""

from __future__ import annotations

import ast
import re
import sys
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import update_wrapper
from importlib import import_module
from inspect import Parameter, Signature, signature as signature_of
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from ftrace.errors import UnsupportedError
from ftrace.trace import tiering
from ftrace.trace.eager.result_memory import place_result

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


def set_name(function: F, name: str, doc: str | None) -> F:
    """A function that another one made, by its own name and with its own docstring.

    What was made with it, around which it stands, has both too: if arguments do not
    fit, Python names that.
    """
    made: Any = function
    while made is function or (made is not None and "<locals>" in made.__qualname__):
        made.__name__ = made.__qualname__ = name
        made.__doc__ = doc
        made = getattr(made, "__wrapped__", None)
    return function


def _with_sections(own: str, shared: str) -> str:
    """A docstring with the sections of another one, behind its first paragraph."""
    sections = shared.partition("\n\n")[2].rstrip()
    if not sections:
        return own
    if sections[0] == " ":  # Python keeps the indentation of the source until 3.13
        sections = sections.replace("\n    ", "\n")[4:]
    first, gap, rest = own.partition("\n\n")
    return f"{first}\n\n{sections}{gap}{rest}"


def member(
    construct: Callable[Concatenate[str, P], F], *args: P.args, **kwargs: P.kwargs
) -> Callable[[Callable[[], None]], F]:
    '''A function of a family, in the place of one that has its name and docstring.

        @member(_segments, "add")
        def segment_sum():
            """The sums of the rows of each segment."""

    What stands behind the first paragraph in the docstring of the function that
    `construct` makes, as the arguments, is of all members.

    Args:
      construct: is given the name, then `args` and `kwargs`; makes a function with the
        parameters that all of the family have. Its own return type is not written but
        inferred, so that those who call a member are shown these parameters.
      args, kwargs: in what the functions differ.
    '''

    def decorate(said: Callable[[], None]) -> F:
        function = construct(said.__name__, *args, **kwargs)
        doc = _with_sections(said.__doc__ or "", function.__doc__ or "")
        return set_name(function, said.__name__, doc)

    return decorate


#: Arguments that say where the result is.
_PLACES = ("device", "out_sharding", "sharding")


def _with_arguments(doc: str, names: Sequence[str]) -> str:
    """A docstring with what `accepting` adds at the end of its `Args`."""
    before, mark, after = doc.partition("Args:\n")
    entries, gap, rest = after.partition("\n\n")
    blanks = entries[: -len(entries.lstrip())]
    where = "where the result is, as `device_put` takes it."
    means = where if names[0] in _PLACES else "must be None."
    entries = f"{entries.rstrip()}\n{blanks}{', '.join(names)}: {means}"
    return f"{before}{mark}{entries}{gap}{rest}" if mark else doc


def accepting(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """`function`, which takes further arguments of JAX's that have to be None.

    But for those that say where the result is.
    """
    known = signature_of(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        place = None
        for name in names:
            given = kwargs.pop(name, None)
            if name in _PLACES:
                place = given if place is None else place
            elif given is not None:
                raise UnsupportedError(f"{name} of {function.__name__} must be None")
        return place_result(function(*args, **kwargs), place)

    made: Any = update_wrapper(call, function)
    made.__doc__ = _with_arguments(function.__doc__ or "", names)
    kind = Parameter.KEYWORD_ONLY
    more = [
        Parameter(n, kind, default=None, annotation="Any" if n in _PLACES else "None")
        for n in names
    ]
    made.__signature__ = known.replace(parameters=[*known.parameters.values(), *more])
    return made


class Record(Protocol):
    """A kind of calls, and what is done, in a form that a device does by itself.

    Attributes:
      address: of it in memory.
      in_use: does a function have it?
    """

    address: int
    in_use: bool


class RecordedCallable:
    """A function that keeps records of the kinds of calls that came often.

    A device may put its own code in the place of `__call__`, which looks for a record
    that fits. What it does not know comes to the method `plain_call`.

    Attributes:
      entry: the name of that code.
    """

    # Native code finds the records through a slot, which has a fixed place.
    __slots__ = ("_links", "_records")

    entry: ClassVar[str]

    def __init__(self) -> None:
        self._links: Any = None  # an array: how many records, and their addresses
        self._records: list[Record] = []

    def add_record(self, record: Record) -> None:
        """One more; the oldest goes where there are too many."""
        recorded_callables.add(self)
        # Whatever is raised meanwhile, all live that the links name.
        self._records = known = [record, *self._records]
        addresses = [x.address for x in known[: tiering.RECORDS]]
        self._links = np.array([len(addresses), *addresses], np.int64)
        for old in known[tiering.RECORDS :]:
            old.in_use = False
        self._records = known[: tiering.RECORDS]

    def forget_records(self) -> None:
        self._links, self._records = None, []


class _ShownSignature:
    """The parameters of a public function, with the types that its stub tells callers.

    They are read when somebody asks, as `help` does; without a stub they are as they
    are written.
    """

    def __get__(self, function: Any, owner: Any = None) -> Signature:
        if function is None:  # of the class
            raise AttributeError("__signature__")
        known = signature_of(function.behind)
        shown = _stub_types(function.__module__, function.__name__)
        parameters = [
            p.replace(annotation=shown.get(p.name, p.annotation))
            for p in known.parameters.values()
        ]
        result = shown.get("return", known.return_annotation)
        return known.replace(parameters=parameters, return_annotation=result)

    def __set__(self, function: Any, value: Any) -> None:
        """What a function has in its `__dict__` does not go before it."""
        raise AttributeError("__signature__")


def _stub_types(module: str, name: str) -> dict[str, str]:
    """The annotations of a function in the stub of its module; none without a stub."""
    file, before = getattr(sys.modules[module], "__file__", None), ""
    if file is None:  # a module without a file is a class in the stub of its package
        module, _, space = module.rpartition(".")
        file = sys.modules[module].__file__
        before = rf"class _{space}\(.*\n(?: .*\n)*?    "
    try:
        with open(f"{str(file).removesuffix('.py')}.pyi", encoding="utf-8") as stub:
            text = stub.read()
    except OSError:
        return {}
    start = rf"^{before}(?:def {name}|class _{name}\(.*\n    def __call__)"
    found = re.search(rf"{start}\((.*?\n?.*?)\) -> (.*): \.\.\.$", text, re.MULTILINE)
    if found is None:
        return {}
    made: Any = ast.parse(f"def f({found[1]}) -> {found[2]}: ...").body[0]
    given = made.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    arguments += [x for x in (given.vararg, given.kwarg) if x is not None]
    types = {x.arg: x.annotation for x in arguments if x.annotation is not None}
    types["return"] = made.returns
    return {key: re.sub(r"\b_(?=\w)", "", ast.unparse(x)) for key, x in types.items()}


#: Those that have records, or had some.
recorded_callables: weakref.WeakSet[RecordedCallable] = weakref.WeakSet()


class Eager(RecordedCallable):
    """A function whose work depends on the types of its arrays alone.

    Other arguments may decide by their values: integers, texts, tuples and the like.

    Args:
      function: the function.
      numbers: the classes of Python's numbers that are operands of it, which decide
        nothing: floats, and integers that are places; `np.integer` if arrays of NumPy's
        integers and bools are, which may be indices and masks to others.
      place: the module in which the object is found.
    """

    # Native code finds the function through a slot, too.
    __slots__ = ("__dict__", "__weakref__", "_place", "behind", "numbers")

    entry = "call_eager"
    __signature__ = _ShownSignature()

    def __init__(
        self, function: Callable[..., Any], numbers: Collection[type[Any]], place: str
    ) -> None:
        super().__init__()
        update_wrapper(self, function)
        self.behind = function
        self.numbers = numbers
        self._place = self.__module__ = place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.behind(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Eager:
        return self  # no method; but `help` shows the signature of what has this

    def __repr__(self) -> str:
        return f"<function {self._place}.{self.behind.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _import_member, (self._place, self.behind.__name__)


def _import_member(place: str, name: str) -> Any:
    return getattr(import_module(place), name)
