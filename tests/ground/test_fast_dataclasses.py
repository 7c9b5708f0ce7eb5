"""`fast_dataclasses` makes what the standard library's makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ftrace.ground import fast_dataclasses


class Base:
    """Not a dataclass."""

    def __repr__(self) -> str:
        return "base"


def classes(make: Any) -> dict[str, Any]:
    """The same classes, made by one of the two."""

    @make(frozen=True)
    class Point:
        x: int
        y: int = 3
        names: list[str] = field(default_factory=list[str], compare=False)

    @make(frozen=True)
    class Longer(Point):
        """With a base, and its own constructor's end."""

        z: float = 0.5
        both: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "both", self.x + self.y)

    @make
    class Open:
        count: int
        seen: set[int] = field(default_factory=set[int], repr=False)

    @make(frozen=True, eq=False)
    class Single:
        value: Any

    @make(frozen=True, repr=False)
    class Own(Base):
        a: int

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return 7

    @make(frozen=True)
    class Hashed:
        a: int
        b: int = field(compare=False, default=1)

    @make(order=True)
    class Ordered:
        a: int

    @make(frozen=True)
    class Empty:
        pass

    return {name: kind for name, kind in locals().items() if isinstance(kind, type)}


OURS, THEIRS = classes(fast_dataclasses.dataclass), classes(dataclasses.dataclass)


def facts(kinds: dict[str, Any]) -> list[Any]:
    point, longer, single = kinds["Point"], kinds["Longer"], kinds["Single"]
    a, b, c = point(1), point(1, 3, ["n"]), point(1, y=4)
    far = longer(1, 2, z=1.5)
    opened, own = kinds["Open"](2), kinds["Own"](1)
    opened.count = 5
    return [
        repr(a).rsplit(".", 1)[-1], repr(far).rsplit(".", 1)[-1],
        repr(opened).rsplit(".", 1)[-1], repr(own),
        repr(kinds["Empty"]()).rsplit(".", 1)[-1],
        a == b, a == c, hash(a) == hash(b), hash(a) == hash(c), a == far, far.both,
        a != b, a.__eq__(3), point(1).names is point(1).names,
        opened == kinds["Open"](5), kinds["Open"].__hash__ is None, opened.seen,
        single(1) == single(1), hash(single(1)) == hash(single(1)),
        own == kinds["Own"](1), hash(own),
        hash(kinds["Hashed"](1, 2)) == hash(kinds["Hashed"](1, 3)),
        kinds["Hashed"](1, 2) == kinds["Hashed"](1, 3),
        kinds["Ordered"](1) < kinds["Ordered"](2),
        kinds["Empty"]() == kinds["Empty"](),
        [f.name for f in dataclasses.fields(far)], dataclasses.is_dataclass(far),
        dataclasses.replace(a, y=9).y, dataclasses.asdict(a), point.__match_args__,
        copy.deepcopy(far) == far, copy.copy(a) == a,
    ]  # fmt: skip


def test_values_behave_as_those_of_the_standard_library() -> None:
    assert facts(OURS) == facts(THEIRS)


@pytest.mark.parametrize("kinds", [OURS, THEIRS], ids=["ours", "theirs"])
def test_frozen_values_refuse_to_change(kinds: dict[str, Any]) -> None:
    value = kinds["Longer"](1)
    for name in ("x", "z", "other"):
        with pytest.raises(FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(value, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"delete field '{name}'"):
            delattr(value, name)

    class Further(kinds["Longer"]):
        """No dataclass: what it adds may change."""

    further: Any = Further(1)
    further.more = 3
    assert further.more == 3
    with pytest.raises(FrozenInstanceError):
        further.x = 2


@pytest.mark.parametrize("kinds", [OURS, THEIRS], ids=["ours", "theirs"])
def test_wrong_arguments_are_refused(kinds: dict[str, Any]) -> None:
    for arguments in ((), (1, 2, ["n"], 4)):
        with pytest.raises(TypeError):
            kinds["Point"](*arguments)
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        kinds["Point"](1, w=2)


def test_a_method_that_is_not_written_yet_is_as_one_that_is() -> None:
    for name, made in classes(fast_dataclasses.dataclass).items():
        theirs = classes(dataclasses.dataclass)[name]
        assert inspect.signature(made).parameters.keys() == (
            inspect.signature(theirs).parameters.keys()
        )
    kind = classes(fast_dataclasses.dataclass)["Point"]

    class Further(kind):
        """Whose constructor calls the one that is not written."""

        def __init__(self) -> None:
            super().__init__(1)

    assert Further().x == 1
    for name in ("Point", "Longer", "Empty"):
        fresh = classes(fast_dataclasses.dataclass)[name]
        assert re.fullmatch(rf".*\.{name}\.__init__", fresh.__init__.__qualname__)


def test_a_mutable_default_is_refused() -> None:
    class Wrong:
        a: list[int] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="mutable default"):
        fast_dataclasses.dataclass(Wrong)


@fast_dataclasses.dataclass(frozen=True)
class Kept:
    """At the top of a module, where pickle finds it."""

    a: int
    b: tuple[int, ...] = ()


class Pair(fast_dataclasses.NamedTuple):
    """At the top of a module as well."""

    first: int
    second: float = 0.5

    @property
    def total(self) -> float:
        return self.first + self.second

    @staticmethod
    def of(text: str) -> Pair:
        return Pair(int(text))


class TypingPair(NamedTuple):
    """The standard library's."""

    first: int
    second: float = 0.5


def test_named_tuples_are_those_of_the_standard_library() -> None:
    for kind in (Pair, TypingPair):
        one: Any = kind(1)
        assert one == (1, 0.5) == kind(second=0.5, first=1)
        assert one._fields == ("first", "second")
        assert kind._field_defaults == {"second": 0.5}
        assert one._replace(first=3)._asdict() == {"first": 3, "second": 0.5}
        assert repr(one) == f"{kind.__name__}(first=1, second=0.5)"
        assert hash(one) == hash((1, 0.5))
        assert kind.__module__ == __name__
        assert kind.__bases__ == (tuple,)
        with pytest.raises(AttributeError):
            one.third = 1
        with pytest.raises(TypeError, match="first"):
            kind()  # pyright: ignore[reportCallIssue]
    assert set(Pair.__annotations__) == set(TypingPair.__annotations__)
    assert Pair.of("2").total == 2.5
    assert Pair.__doc__ == "At the top of a module as well."
    first, second = Pair(4)
    assert (first, second) == (4, 0.5)


def test_values_are_pickled() -> None:
    value = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(Pair(2))) == Pair(2)
    match value:
        case Kept(a, b):
            assert (a, b) == (1, (2, 3))


def test_the_package_makes_its_classes_here() -> None:
    package = Path(fast_dataclasses.__file__).parent
    late = re.compile(
        r"^from (dataclasses|typing) import .*\b(dataclass|NamedTuple)\b", re.MULTILINE
    )
    found = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "records.py" and late.search(path.read_text())
    ]
    assert found == [], (
        "write: from ftrace.ground.fast_dataclasses import NamedTuple, dataclass"
    )
