"""Dynamic dimensions: sizes that a function is compiled without knowing.

    Dim      = a polynomial with integer coefficients of named sizes and of quotients
    named    = `Dim("batch", min=2, max=4096)`: any size of that range
    quotient = floor(Dim / Dim), where it does not divide exactly

A shape stays a tuple: a `Dim` stands in it where a number would, and arithmetic on it
gives Dims again (numbers, where nothing unknown is left). It is no `int`, although type
checkers are told so: Python reads the number out of a subclass of int without asking
(`range`, list indices), and a made-up number would be computed with. What asks for the
number raises `DynamicDimensionError` and names the user's line.

A comparison is decided where it has one answer for all sizes of the ranges, and raises
otherwise. What must go on asks `same_size`: False is "not known to be equal" there, on
which every pass may rely: an axis that is not known to be 1 gets a loop. Sizes are at
least 1, so that no loop of a kernel is known to be empty; `avals` refuses shapes that
might be.

What else is asked of sizes, numbers or not, stands below: `sample` is one possible
value, for decisions on cost and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import TYPE_CHECKING, Any, NoReturn

from ftrace.errors import ArgumentError, DynamicDimensionError, ValueRangeError
from ftrace.ground.fast_dataclasses import Immutable, NamedTuple
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.backend import backend

#: The greatest size of a dimension unless it is given.
LARGEST = (1 << 31) - 1

Interval = tuple[int, int]


if TYPE_CHECKING:
    _Base = int
else:
    _Base = object


def _operator(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A method that is a function of sizes; of other operands see `_leave_integers`."""

    def method(self: Any, other: Any) -> Any:
        return (
            function(self, other)
            if _is_size(other)
            else _leave_integers(name, self, other)
        )

    return method


def _is_size(value: Any) -> bool:
    return type(value) is Dim or isinstance(value, int)


def _leave_integers(method: str, dim: Dim, other: Any) -> Any:
    """Arithmetic that leaves the integers: of arrays, or of a traced scalar."""
    if hasattr(other, "dtype"):
        return getattr(ArrayLike, method)(dim, other)
    number = isinstance(other, (int, float, complex)) or type(other) is Dim
    if not number:
        return NotImplemented
    return getattr(backend().value_of_dim(dim), method)(other)


def _refusing_method(what: str) -> Callable[..., NoReturn]:
    """A method that would need the number."""

    def method(self: Dim, *_: Any, **__: Any) -> NoReturn:
        names = _names_of(self)
        raise DynamicDimensionError(
            f"the dynamic dimension {self} was used as {what}, but the function is "
            f"compiled once for all sizes of {names}. Compute with it through "
            "ftrace.numpy (arange, zeros, where, sums along an axis, vmap), use -1 in "
            f"reshape, or take {names} out of `dynamic` to compile for each size"
        )

    return method


class Dim(Immutable, _Base):
    """A dimension whose size is not known while a function is compiled.

    Args:
      name: equal names are equal sizes.
      min, max: the sizes that calls may have. Sizes 0 and 1 are compiled apart, if the
        range holds them.

    Raises:
      ArgumentError: the name is no identifier.
      ValueRangeError: the range holds no size of 2 or more.

    Example:
      >>> n = ft.Dim("n")
      >>> total = ft.jit(fnp.sum, dynamic={"a": {0: n}})
      >>> float(total(fnp.ones(4))), float(total(fnp.ones(7))), total.trace_count
      (4.0, 7.0, 1)
      >>> 2 * n + 1
      2*n + 1
    """

    __slots__ = ("hashed", "interval", "terms")
    __array_ufunc__ = None  # an array of NumPy leaves its operators to us

    terms: tuple[tuple[Monomial, int], ...]
    interval: Interval | None
    hashed: int

    def __new__(cls, name: str, min: int = 0, max: int = LARGEST) -> Dim:
        given: Any = name
        if not isinstance(given, str) or not given.isidentifier():
            raise ArgumentError(
                f"Dim: the name of a dimension must be an identifier, got {given!r}"
            )
        if not 0 <= min <= max or max < 2:
            raise ValueRangeError(
                f"Dim({name!r}): a range with 0 <= min <= max and 2 <= max is "
                f"required, got min={min}, max={max}"
            )
        return _make({((Symbol(name, min, max), 1),): 1})

    # Arithmetic.

    __add__ = __radd__ = _operator("__add__", lambda a, b: _sum(a, b))
    __sub__ = _operator("__sub__", lambda a, b: _sum(a, b, -1))
    __rsub__ = _operator("__rsub__", lambda a, b: _sum(b, a, -1))
    __mul__ = __rmul__ = _operator("__mul__", lambda a, b: _product(a, b))
    __floordiv__ = _operator("__floordiv__", lambda a, b: floor_quotient(a, b))
    __rfloordiv__ = _operator("__rfloordiv__", lambda a, b: floor_quotient(b, a))
    __mod__ = _operator("__mod__", lambda a, b: a - floor_quotient(a, b) * b)
    __rmod__ = _operator("__rmod__", lambda a, b: b - floor_quotient(b, a) * a)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return quotient, self - quotient * other

    def __rdivmod__(self, other: Any) -> Any:
        quotient = other // self
        return quotient, other - quotient * self

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        if type(power) is not int or power < 0 or modulo is not None:
            return _leave_integers("__pow__", self, power)
        result: Any = 1
        for _ in range(power):
            result = result * self
        return result

    def __rpow__(self, base: Any, modulo: Any = None) -> Any:
        return _leave_integers("__rpow__", self, base)

    def __truediv__(self, other: Any) -> Any:
        return _leave_integers("__truediv__", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _leave_integers("__rtruediv__", self, other)

    # Comparisons.

    __eq__ = _operator("__eq__", lambda a, b: _equals(a, b, "=="))
    __ne__ = _operator("__ne__", lambda a, b: not _equals(a, b, "!="))
    __lt__ = _operator("__lt__", lambda a, b: _is_at_least(b, a, "<", 1))
    __le__ = _operator("__le__", lambda a, b: _is_at_least(b, a, "<=", 0))
    __gt__ = _operator("__gt__", lambda a, b: _is_at_least(a, b, ">", 1))
    __ge__ = _operator("__ge__", lambda a, b: _is_at_least(a, b, ">=", 0))

    def __hash__(self) -> int:
        return self.hashed

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0:
            return True
        refuse_undecided(self, "!=", 0)

    # What needs the number.

    __index__ = __int__ = _refusing_method("an integer")
    __float__ = _refusing_method("a float")
    __complex__ = _refusing_method("a complex number")
    __array__ = _refusing_method("a NumPy array")

    def __round__(self, ndigits: Any = None) -> Any:
        return self

    # Texts.

    def __repr__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [
                _atom_text(atom) if power == 1 else f"{_atom_text(atom)}**{power}"
                for atom, power in monomial
            ]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(f"{sign} {'*'.join(factors)}")
        text = " ".join(parts)
        return "-" + text[2:] if text.startswith("- ") else text[2:]

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        return _make, (dict(self.terms),)


def _atom_text(atom: Symbol | Quotient) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    return f"(({atom.numerator})//{atom.divisor})"


# Polynomials, as dicts.
#
#     terms    = {monomial: coefficient, …}
#     monomial = ((atom, power), …), sorted; () is the constant's
#     atom     = Symbol, a named size | Quotient, the floor of a division


class Symbol(NamedTuple):
    """A named size and its range."""

    name: str
    min: int
    max: int


class Quotient(NamedTuple):
    """floor(numerator / divisor); the divisor is positive."""

    numerator: Any
    divisor: Any


#: Atoms with their powers, sorted.
Monomial = tuple[tuple[Any, int], ...]
Terms = dict[Monomial, int]


def _order(term: tuple[Monomial, int]) -> tuple[int, str]:
    """Higher degrees first, the constant last."""
    return -sum(power for _, power in term[0]), repr(term[0])


def _add(a: Terms, b: Terms, sign: int = 1) -> Terms:
    total = dict(a)
    for monomial, coefficient in b.items():
        total[monomial] = total.get(monomial, 0) + sign * coefficient
    return total


def _multiply(a: Terms, b: Terms) -> Terms:
    total: Terms = {}
    for left, c in a.items():
        for right, d in b.items():
            monomial = _join(left, right)
            total[monomial] = total.get(monomial, 0) + c * d
    return total


def _join(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=repr))


def _without(whole: Monomial, part: Monomial) -> Monomial | None:
    """`whole` divided by `part`; None where it does not divide."""
    powers = dict(whole)
    for atom, power in part:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple(sorted([p for p in powers.items() if p[1]], key=repr))


def _divide(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """(q, r) with a = q·b + r, where no term of r holds the first term of b."""
    (leading, factor), *_ = sorted(b.items(), key=_order)
    if factor < 0:  # of a positive divisor as n - m: there is nothing to gain
        return {}, a
    whole: Terms = {}
    rest: Terms = {}
    left = {m: c for m, c in a.items() if c}
    for _ in range(64):
        if not left:
            return whole, rest
        monomial, coefficient = min(left.items(), key=_order)
        over = _without(monomial, leading)
        times = coefficient // factor if over is not None else 0
        if over is None or times == 0:
            rest[monomial] = rest.get(monomial, 0) + left.pop(monomial)
            continue
        whole[over] = whole.get(over, 0) + times
        left = _add(left, _multiply({over: times}, b), -1)
        rest[monomial] = rest.get(monomial, 0) + left.pop(monomial, 0)
        left = {m: c for m, c in left.items() if c}
    return {}, a


def _make(terms: Terms) -> Dim:
    dim = object.__new__(Dim)
    dim.terms = tuple(sorted(terms.items(), key=_order))
    # -1 and -2 have one hash, but n - 1 and n - 2 must not: who looks one up in a table
    # would compare them.
    signed = [(m, c if c >= 0 else c - 1) for m, c in dim.terms]
    dim.hashed = hash(("Dim", *signed))
    dim.interval = None
    return dim


def _simplest(terms: Terms) -> Any:
    """A number where nothing unknown is left."""
    terms = {m: c for m, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return _make(terms)


def _terms(value: Any) -> Terms:
    return dict(value.terms) if type(value) is Dim else {(): int(value)}


def _sum(a: Any, b: Any, sign: int = 1) -> Any:
    return _simplest(_add(_terms(a), _terms(b), sign))


def _product(a: Any, b: Any) -> Any:
    return _simplest(_multiply(_terms(a), _terms(b)))


@memo(1 << 12)
def floor_quotient(a: Any, b: Any) -> Any:
    """floor(a / b): exactly, by bounds, or as an atom."""
    if type(a) is not Dim and type(b) is not Dim:
        return a // b
    if bounds(b)[1] < 0:
        return floor_quotient(-a, -b)
    if bounds(b)[0] <= 0:
        refuse_undecided(b, ">", 0)
    whole, rest = _divide(_terms(a), _terms(b))
    quotient, left = _simplest(whole), _simplest(rest)
    low, high = bounds(left)
    if low >= 0 and bounds(b - left)[0] > 0:
        return quotient
    if high < 0 and bounds(b + left)[0] >= 0:
        return quotient - 1
    return quotient + _make({((Quotient(left, b), 1),): 1})


# Bounds.


def bounds(size: Any) -> Interval:
    """The least and the greatest value that a size may have."""
    if type(size) is not Dim:
        return int(size), int(size)
    if size.interval is None:
        size.interval = _bounds_of(size)
    return size.interval


def _bounds_of(dim: Dim) -> Interval:
    low = high = 0
    for monomial, coefficient in dim.terms:
        least = greatest = coefficient
        for atom, power in monomial:
            for _ in range(power):
                ends = [x * y for x in (least, greatest) for y in _atom_bounds(atom)]
                least, greatest = min(ends), max(ends)
        low, high = low + least, high + greatest
    # From the least sizes upward: n·m - n never falls where m >= 1.
    shifted = _shift_to_least(dim)
    constant = shifted.pop((), 0)
    if all(c >= 0 for c in shifted.values()):
        low = max(low, constant)
    if all(c <= 0 for c in shifted.values()):
        high = min(high, constant)
    for ((atom, power), *others), coefficient in [t for t in dim.terms if t[0]]:
        alone = isinstance(atom, Quotient) and power == 1 and not others
        if alone and type(atom.divisor) is int:
            least, greatest = _bounds_without(dim, atom, coefficient)
            return max(low, least), min(high, greatest)
    return low, high


def _bounds_without(dim: Dim, atom: Quotient, coefficient: int) -> Interval:
    """(p - d + 1) / d <= floor(p / d) <= p / d in the place of a quotient."""
    top, divisor = atom.numerator, atom.divisor
    rest = dim - coefficient * _make({((atom, 1),): 1})
    ends = [
        bounds(rest * divisor + coefficient * end) for end in (top, top - divisor + 1)
    ]
    if coefficient > 0:
        ends.reverse()
    (low, _), (_, high) = ends
    return -(-low // divisor), high // divisor


def _atom_bounds(atom: Symbol | Quotient) -> Interval:
    if isinstance(atom, Symbol):
        return atom.min, atom.max
    low, high = bounds(atom.numerator)
    least, greatest = bounds(atom.divisor)
    ends = [x // y for x in (low, high) for y in (least, greatest)]
    return min(ends), max(ends)


def _shift_to_least(dim: Dim) -> Terms:
    """The polynomial of how far each atom is above its least value."""
    total: Terms = {}
    for monomial, coefficient in dim.terms:
        part: Terms = {(): coefficient}
        for atom, power in monomial:
            least = _atom_bounds(atom)[0]
            for _ in range(power):
                part = _multiply(part, {((atom, 1),): 1, (): least})
        total = _add(total, part)
    return total


def _equals(a: Any, b: Any, sign: str) -> bool:
    difference = a - b
    if type(difference) is not Dim:
        return difference == 0
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    refuse_undecided(a, sign, b)


def _is_at_least(a: Any, b: Any, sign: str, least: int) -> bool:
    """a >= b + least, where that is known."""
    low, high = bounds(a - b)
    if low >= least:
        return True
    if high < least:
        return False
    if sign in ("<", "<="):
        a, b = b, a
    refuse_undecided(a, sign, b)


def refuse_undecided(a: Any, sign: str, b: Any) -> NoReturn:
    ranges, names = _ranges_of(a, b), _names_of(a, b)
    raise DynamicDimensionError(
        f"whether {a} {sign} {b} holds depends on the sizes of dynamic dimensions "
        f"({ranges}), but the function is compiled once for all of them. Choose at run "
        f"time with ftrace.numpy.where(ftrace.numpy.asarray({a}) {sign} {b}, ...), "
        "give an ftrace.Dim with a range in which it is decided, or take "
        f"{names} out of `dynamic` to compile for each size"
    )


def same_size(a: Any, b: Any) -> bool:
    """Are sizes, or shapes, indices and the like made of them, known to be equal?

    False where that depends on the sizes of a call.
    """
    try:
        return a == b
    except DynamicDimensionError:
        return False


# What a size is made of.


def is_dynamic(value: Any) -> bool:
    return type(value) is Dim


def any_dynamic(values: Iterable[Any]) -> bool:
    return any(type(v) is Dim for v in values)


def symbols_of(values: Iterable[Any]) -> set[Symbol]:
    """The named dimensions that some sizes are made of."""
    found: set[Symbol] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if type(value) is not Dim:
            continue
        for monomial, _ in value.terms:
            for atom, _ in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    pending += [atom.numerator, atom.divisor]
    return found


def _names_of(*sizes: Any) -> str:
    return ", ".join([repr(s.name) for s in sorted(symbols_of(sizes))])


def _ranges_of(*sizes: Any) -> str:
    found = sorted(symbols_of(sizes))
    return ", ".join([f"{s.name} in {s.min}..{s.max}" for s in found])


def symbol_of(dim: Dim) -> Symbol:
    """Of a named dimension: its name and range."""
    ((((symbol, _),), _),) = dim.terms
    return symbol


# What is asked of sizes, which may be numbers or dynamic dimensions.


#: What a dimension is taken for where cost is estimated.
_SAMPLE = 1024

#: Sizes of dynamic dimensions, by name.
Sizes = Mapping[str, int]


def surely_less(a: Any, b: Any) -> bool:
    """Is a < b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a < b
    return bounds(b - a)[0] > 0


def surely_at_most(a: Any, b: Any) -> bool:
    """Is a <= b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a <= b
    return bounds(b - a)[0] >= 0


def lower_bound(size: Any) -> int:
    return bounds(size)[0]


def upper_bound(size: Any) -> int:
    return bounds(size)[1]


def common_divisor(*values: Any) -> Any:
    """A number or a Dim that divides all of the values: not always the greatest."""
    numbers = [v for v in values if type(v) is not Dim]
    dims = [v for v in values if type(v) is Dim]
    if not dims:
        return gcd(*numbers)
    contents = gcd(*numbers, *[c for d in dims for _, c in d.terms])
    nonzero = [v for v in values if type(v) is Dim or v != 0]
    for candidate in dims:
        if all(_divides(candidate, v) for v in nonzero):
            return candidate
    return contents


def _divides(divisor: Dim, value: Any) -> bool:
    if bounds(divisor)[0] <= 0:
        return False
    rest: Any = value - value // divisor * divisor
    return same_size(rest, 0)


def sample(size: Any) -> int:
    """A size that it may have, for estimates of cost."""
    if type(size) is not Dim:
        return size
    return evaluate(size, _Samples())


class _Samples(dict[str, int]):
    """For each name a size in the middle of things; `_value` looks at the ranges."""

    def __missing__(self, name: str) -> int:
        return _SAMPLE


def evaluate(size: Any, sizes: Sizes) -> int:
    """The number that a size is, given those of the named dimensions."""
    if type(size) is not Dim:
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom, power in monomial:
            coefficient *= _value(atom, sizes) ** power
        total += coefficient
    return total


def _value(atom: Symbol | Quotient, sizes: Sizes) -> int:
    if isinstance(atom, Symbol):
        found = sizes[atom.name]
        inside = isinstance(sizes, _Samples)
        return min(max(found, atom.min), atom.max) if inside else found
    return evaluate(atom.numerator, sizes) // evaluate(atom.divisor, sizes)


def evaluate_shape(shape: tuple[Any, ...], sizes: Sizes) -> tuple[int, ...]:
    return tuple([evaluate(n, sizes) for n in shape])


# Slices of axes whose sizes may be dynamic.


def dynamic_slice_bounds(part: slice, size: Any) -> tuple[tuple[Any, Any], Any]:
    """((start, stop), step) of a slice; the stop is next to the last element.

    Raises:
      DynamicDimensionError: it depends on sizes which elements those are.
    """
    step = 1 if part.step is None else part.step
    if type(step) is not int:
        refuse_undecided(step, "==", 1)
    if step == 0:
        raise ValueRangeError("the step of a slice must not be 0")
    first, last = (0, size) if step > 0 else (size - 1, -1)
    start = first if part.start is None else _clamp_bound(part, part.start, size, step)
    stop = last if part.stop is None else _clamp_bound(part, part.stop, size, step)
    count = -((start - stop) // step)
    low, high = bounds(count)
    if high < 1:
        return (0, 0), 1
    if low < 1:
        _unclear(part, size, "may be empty")
    end = start + (count - 1) * step
    lowest, highest = (start, end) if step > 0 else (end, start)
    return (lowest, highest + 1), 1 if high == 1 else step


def _clamp_bound(part: slice, given: Any, size: Any, step: int) -> Any:
    """Where a bound of a slice is, counted from the front and inside the axis."""
    place = given if is_dynamic(given) else int(given)
    if surely_less(place, 0):
        place = place + size
    low, high = (0, size) if step > 0 else (-1, size - 1)
    if surely_at_most(low, place) and surely_at_most(place, high):
        return place
    for end in (low, high):
        if surely_at_most(place, end) if end is low else surely_at_most(end, place):
            return end
    _unclear(part, size, "may reach beyond its end")


def _unclear(part: slice, size: Any, what: str) -> NoReturn:
    text = ":".join("" if b is None else str(b) for b in (part.start, part.stop))
    text += "" if part.step is None else f":{part.step}"
    ranges = _ranges_of(size)
    raise DynamicDimensionError(
        f"the slice [{text}] of an axis of size {size} {what}, for some sizes of the "
        f"range ({ranges}). Give the dimension a range in which it does not, as in "
        'ftrace.Dim("batch", min=8), or use ftrace.numpy.where'
    )


def steps_between(low: Any, high: Any, step: int) -> Any:
    """len(range(low, high, step)) of a range that is not empty, or of numbers."""
    if not any_dynamic((low, high)):
        return len(range(low, high, step))
    return -((low - high) // step)
