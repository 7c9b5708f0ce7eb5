"""Array: the immutable concrete value that users hold.

`ArrayLike` gives arrays and tracers their operators and methods. The ground floor
knows no graph: each of them calls a function of the table `functions`, which
`ftrace.numpy` fills when it is imported.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeGuard, cast

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.spans import in_span
from ftrace.trace.arrays.buffer import (
    Buffer,
    Memory,
    copy_aligned,
    has_memory,
    is_exclusive,
)
from ftrace.trace.backend import backend

#: So many parts are made at once where an array is iterated.
_PARTS_AT_ONCE = 64

#: Those of `ftrace.numpy` by name, which operators and methods call.
functions: dict[str, Callable[..., Any]] = {}


class Recording(threading.local):
    """What notes the steps of an eager call in this thread, if something does.

    Attributes:
      tape: see `trace/eager/composite.py`. It is told, too, when the values of an
        Array decide what Python's code does.
    """

    tape: Any = None


recording = Recording()


#: Refused beside an array, where Python would say that they are not equal.
_CONTAINERS = (list, tuple, set, dict)


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not is_operand(other) and type(other) not in _CONTAINERS:
            return NotImplemented
        function = functions[name]
        return function(other, self) if reflected else function(self, other)

    method.__qualname__ = name  # which Python names where there are too many operands
    return method


def _operators(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator, and the one that a right operand is asked for."""
    return _operator(name), _operator(name, reflected=True)


def _unary(name: str) -> Callable[..., Any]:
    def method(self: Any) -> Any:
        return functions[name](self)

    return method


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return functions[name](self, *args, **kwargs)

    method.__name__ = name
    return method


def _in_place(self: Any, key: Any, value: Any = None, /) -> NoReturn:
    raise errors.ImmutableError(
        "arrays are immutable: x[i] = y is not possible. Write x = x.at[i].set(y) "
        "instead"
    )


#: What is written where a function takes arrays with axes.
_WITH_AXIS = "write x.reshape(-1), or fnp.atleast_1d(x), for an array of one axis"


def is_operand(value: Any) -> bool:
    """Can it stand beside an array in an operator?"""
    kinds = (ArrayLike, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(value, kinds) or hasattr(value, "__jax_array__")


if TYPE_CHECKING:
    # A stub alone, which docs/stubs.py makes.
    from ftrace.trace.arrays.methods import (  # pyright: ignore[reportMissingModuleSource]
        Methods,
    )
else:
    Methods = object


class ArrayLike(Methods):
    """The operators, methods and properties that arrays and tracers share."""

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        raise NotImplementedError

    if not TYPE_CHECKING:  # of their types the stub tells
        __add__, __radd__ = _operators("add")
        __sub__, __rsub__ = _operators("subtract")
        __mul__, __rmul__ = _operators("multiply")
        __truediv__, __rtruediv__ = _operators("true_divide")
        __floordiv__, __rfloordiv__ = _operators("floor_divide")
        __mod__, __rmod__ = _operators("remainder")
        __divmod__, __rdivmod__ = _operators("divmod")
        __pow__, __rpow__ = _operators("power")
        __matmul__, __rmatmul__ = _operators("matmul")
        __and__, __rand__ = _operators("bitwise_and")
        __or__, __ror__ = _operators("bitwise_or")
        __xor__, __rxor__ = _operators("bitwise_xor")
        __lshift__, __rlshift__ = _operators("left_shift")
        __rshift__, __rrshift__ = _operators("right_shift")
        __eq__ = _operator("equal")
        __ne__ = _operator("not_equal")
        __lt__ = _operator("less")
        __le__ = _operator("less_equal")
        __gt__ = _operator("greater")
        __ge__ = _operator("greater_equal")
        __neg__ = _unary("negative")
        __pos__ = _unary("positive")
        __abs__ = _unary("absolute")
        __invert__ = _unary("bitwise_not")

        T = property(_unary("transpose"), doc="The axes in reverse order.")

        mT = property(_unary("matrix_transpose"), doc="The last two axes exchanged.")

        real = property(_unary("real"))

        imag = property(_unary("imag"))

        @property
        def at(self) -> Any:
            """`x.at[index].set(y)` and the like: a copy of x, changed there.

            `x.at[index]` has `set`, `add`, `subtract`, `multiply`, `divide`, `power`,
            `min`, `max`, `apply(function)` and `get()`. An index is anything that
            `x[index]` takes; repeated ones count as often as they stand there. Under
            `jit` nothing is copied where the old array is not used any more. All
            methods take `mode`, for indices out of bounds: "drop" (the default of
            updates), "clip" (the default of `get`), "fill" or "promise_in_bounds".

            Raises:
              IndexBoundsError: without a mode, for an index that is known to be out of
                bounds. JAX leaves such an update out.
              ShapeError: the values do not broadcast to the place.

            Example:
              >>> x = fnp.array([1, 2, 3])
              >>> x.at[0].set(10), x
              (Array([10,  2,  3], dtype=int32), Array([1, 2, 3], dtype=int32))
              >>> x.at[fnp.array([1, 1])].add(10)
              Array([ 1, 22,  3], dtype=int32)
              >>> x.at[x > 1].multiply(-1)
              Array([ 1, -2, -3], dtype=int32)
              >>> x.at[fnp.array([0, 5])].get(mode="fill", fill_value=-1)
              Array([ 1, -1], dtype=int32)
            """
            return functions["at"](self)

    __setitem__ = __delitem__ = _in_place

    def __getitem__(self, index: Any) -> Array:
        native = index.__class__ in (int, Array)  # it decides nothing by what it is
        return functions["getitem_at" if native else "getitem"](self, index)

    def __contains__(self, item: Any) -> bool:
        if not is_operand(item) or np.ndim(item):
            raise errors.ArgumentError(
                "x in array: one number is looked for among the elements, got "
                f"{item!r:.60}"
            )
        return bool((self == item).any())

    def __round__(self, ndigits: int | None = None) -> Any:
        rounded = self.round(ndigits or 0)
        return rounded if ndigits is not None else rounded.astype(int)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise errors.ArgumentError(f"len() of an array without axes; {_WITH_AXIS}")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise errors.ArgumentError(
                f"iteration over an array without axes; {_WITH_AXIS}"
            )
        return map(self.__getitem__, range(self.shape[0]))

    def reshape(self, *shape: Any, order: str = "C", **options: Any) -> Array:
        """The same elements, row by row, in another shape; see `ftrace.numpy.reshape`.

        Args:
          shape: the sizes, one by one or as a tuple; one of them may be -1: what is
            left.
          order: "C" reads and fills row by row, "F" column by column.
          options: the others of `ftrace.numpy.reshape`, by keyword.

        Raises:
          ShapeError: the shape has another number of elements.

        Example:
          >>> fnp.arange(6).reshape(2, -1)
          Array([[0, 1, 2],
                 [3, 4, 5]], dtype=int32)
        """
        target = shape[0] if len(shape) == 1 else shape
        return functions["reshape"](self, target, order=order, **options)

    def compress(
        self, condition: Any, axis: int | None = None, **options: Any
    ) -> Array:
        """See `ftrace.numpy.compress`."""
        return functions["compress"](condition, self, axis, **options)

    def transpose(self, *axes: Any) -> Array:
        """The axes in another order, by default reversed; see `ftrace.numpy.transpose`.

        Args:
          axes: for each axis of the result the axis of the array; one by one or as a
            tuple.

        Raises:
          AxisError: it is no permutation of them.

        Example:
          >>> fnp.zeros((2, 3, 4)).transpose(2, 0, 1).shape
          (4, 2, 3)
        """
        order = axes[0] if len(axes) == 1 else axes or None
        return functions["transpose"](self, order)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`ftrace.numpy`: a namespace of the array API standard."""
        return functions["array_namespace"](api_version=api_version)


#: Methods that do what a function of `ftrace.numpy` does, and those of another name.
METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap",
    "choose", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal", "dot", "max",
    "mean", "min", "nonzero", "partition", "prod", "ptp", "ravel", "repeat", "round",
    "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace",
    "var", "view",
)  # fmt: skip
RENAMED = {"clone": "copy", "conjugate": "conj", "flatten": "ravel"}
for _name in (*METHODS, *RENAMED):
    setattr(ArrayLike, _name, _method(RENAMED.get(_name, _name)))


def tell_of_methods(public: Mapping[str, Any]) -> None:
    """Methods have the docstring and the signature of the function that they call.

    Args:
      public: `ftrace.numpy`, whose functions tell callers their types.
    """
    for name in (*METHODS, *RENAMED):
        method = getattr(ArrayLike, name)
        function = public.get(method.__name__, functions[method.__name__])
        method.__wrapped__ = function
        method.__doc__ = f"See `ftrace.numpy.{method.__name__}`: {function.__doc__}"


class HostMemory:
    """Memory of the host that no device allocated: arrays that came from NumPy."""

    name = "cpu"
    host = True

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Any:
        return np.frombuffer(buffer.memory, dtype, size)


HOST = HostMemory()

_new: Callable[[type[Array]], Array] = object.__new__


#: Bytes up to which NumPy gets a copy of what a program made: the memory is free again
#: for the next call as soon as the Array is.
SHORT = 512


class _Shown:
    """Shows NumPy the memory of an array, as if it could be changed."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        place = array.__array_interface__
        self.__array_interface__ = {**place, "data": (place["data"][0], False)}


def _writable(array: np.ndarray[Any, Any]) -> Any:
    return array if array.flags.writeable else np.asarray(_Shown(array))


class _ArrayType(type):
    """`isinstance(x, Array)` is true of traced values; `is_array(x)` is not."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), ArrayLike)


class Array(ArrayLike, metaclass=_ArrayType):
    """An immutable array: a buffer on a device, a shape and a dtype.

    Make one with `ftrace.numpy.array` or `asarray`; NumPy reads it without a copy. It
    has NumPy's operators and methods; what would change it is `x.at[index].set(y)`,
    which returns a changed copy. Under a transform a function gets traced values
    instead, which have the same operators and methods, and are instances of this class
    for `isinstance`.

    Attributes:
      weak_type: it came from Python scalars alone, and takes the other's dtype.

    Example:
      >>> x = fnp.array([[1.0, 2.0], [3.0, 4.0]])
      >>> x.shape, x.dtype, x.T[0], float(x.sum())
      ((2, 2), dtype('float32'), Array([1., 3.], dtype=float32), 10.0)
      >>> np.asarray(x) @ np.ones(2)
      array([3., 7.])
      >>> x.at[0, 0].set(9.0)
      Array([[9., 2.],
             [3., 4.]], dtype=float32)
    """

    __slots__ = (
        "__weakref__", "_aval", "_buffer", "_dtype", "_host", "_shape", "weak_type",
    )  # fmt: skip

    _aval: Any  # its type as traces know it; not set until one has asked for it
    #: Has one been divided over devices? Nobody else looks for arrays that are.
    any_placed: ClassVar[bool] = False

    _buffer: Buffer | None
    _host: np.ndarray[Any, Any] | None

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        weak_type: bool = False,
        buffer: Buffer | None = None,
        host: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._shape = shape
        self._dtype = dtype
        self.weak_type = weak_type
        self._buffer = buffer
        self._host = host

    @staticmethod
    def of(array: np.ndarray[Any, Any], weak_type: bool = False) -> Array:
        """An Array that shares the memory of a NumPy array that nobody changes."""
        return Array(array.shape, array.dtype, weak_type, None, array)

    @staticmethod
    def of_type(aval: Any, buffer: Buffer) -> Array:
        """An Array in a buffer, of a type as traces know it."""
        made = _new(Array)
        made._aval = aval
        made._shape = aval.shape
        made._dtype = aval.dtype
        made.weak_type = aval.weak_type
        made._buffer = buffer
        made._host = None
        return made

    def __iter__(self) -> Iterator[Array]:
        # Few parts are made at once, which takes less than one call for each.
        if self._shape and self._shape[0] <= _PARTS_AT_ONCE and self.memory.host:
            return iter(functions["unstack"](self))
        return super().__iter__()

    @property
    def flat(self) -> Any:
        """NumPy's iterator over the elements, which cannot be set."""
        return cast(Any, np.asarray(self)).flat

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def buffer(self) -> Buffer:
        """The memory, row-major and contiguous."""
        if self._buffer is None:
            if self._host is None:
                raise self._deletion_error()
            values: Any = self._host
            if not values.flags.c_contiguous:  # maybe one element, shown at every place
                self._require_memory()
            try:
                rows = values.flags.c_contiguous
                flat: Any = np.ravel(values if rows else copy_aligned(values))
            except MemoryError:
                raise self._no_memory() from None
            memory = flat.view(dtypes.carrier(self._dtype))
            self._buffer = Buffer(HOST, memory, flat.nbytes)
            self._host = flat.reshape(self._shape)
        return self._buffer

    @property
    def stored(self) -> Buffer | None:
        """The buffer, where there is one already."""
        return self._buffer

    @property
    def memory(self) -> Memory:
        """The device that the array is on."""
        return HOST if self._buffer is None else self._buffer.device

    device = property(lambda self: backend().device_of(self))

    def devices(self) -> set[Any]:
        """The set of devices that hold the array."""
        return {self.device}

    @property
    def aval(self) -> Any:
        """Its type, as traces know it."""
        return backend().aval_of(self)

    @property
    def sharding(self) -> Any:
        """How it lies on devices: on one, unless a mesh was given."""
        return backend().sharding_of(self)

    @property
    def format(self) -> Any:
        """How its elements lie: row-major, on one device."""
        return backend().format_of(self)

    @property
    def addressable_shards(self) -> Any:
        """Its parts on devices."""
        return backend().shards_of(self)

    global_shards = addressable_shards

    def addressable_data(self, index: int) -> Array:
        """The part of that number."""
        return self.addressable_shards[index].data

    is_fully_addressable = is_fully_replicated = property(lambda self: True)

    #: Was it put on a device on purpose?
    committed: ClassVar[bool] = False

    def on_device_size_in_bytes(self) -> int:
        return self.nbytes

    def unsafe_buffer_pointer(self) -> int:
        """The address of its elements, in memory that a result may take later."""
        if self.memory is HOST and (device := backend().device_of(self)).host:
            self._buffer = self.copy_to(device)
        buffer = self.buffer
        flat = buffer.device.copy_out(buffer, self._dtype, self.size)
        host = self._host = flat.reshape(self._shape)
        return host.ctypes.data

    def buffer_on(self, device: Any) -> Buffer:
        """Its elements in memory of a device, which may be shared."""
        values: Any = self.numpy()
        return device.copy_in(values.view(dtypes.carrier(self._dtype)))

    @in_span("copy", "an array")
    def copy_to(self, device: Any) -> Buffer:
        """Its elements in memory of the device's own allocator."""
        if not device.host:
            return self.buffer_on(device)
        values: Any = self.numpy()
        buffer = device.allocate(values.nbytes)
        memory: Any = device.copy_out(buffer, self._dtype, self.size)
        memory.reshape(self._shape)[...] = values
        return buffer

    def copy_to_host_async(self) -> None:
        """Begins to bring the values to the host, where NumPy reads them."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array, shared where the device allows it.

        It is a view of its own: nothing that is done to it changes the array.

        Returns:
          A `numpy.ndarray` of the same shape and dtype. `np.array(x)` is a copy to
          change.

        Example:
          >>> fnp.array([1, 2]).numpy()
          array([1, 2], dtype=int32)
        """
        host: Any = self._host
        if host is None:
            if self._buffer is None:
                raise self._deletion_error()
            size = self.size
            buffer = self._buffer
            flat = buffer.device.copy_out(buffer, self._dtype, size)
            if flat.nbytes <= SHORT and buffer.allocator is not None:
                flat = flat.copy()  # sooner done than other memory is found
            host = self._host = flat.reshape(self._shape)
        view = host[...]
        view.flags.writeable = False
        return view

    def note_read(self) -> None:
        """The values will decide what Python's code does."""
        if recording.tape is not None:
            recording.tape.refuse()

    def _read(self) -> Any:
        self.note_read()
        return self.numpy()

    def _require_numbers(self) -> None:
        if dtypes.is_key(self._dtype):
            raise errors.DtypeError(
                f"random keys of shape {self._shape} are no numbers; those are "
                "random.key_data(keys)"
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._require_numbers()
        values = self._read()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            return values.astype(dtype)
        if copy:
            self._require_memory()
            return np.array(values)
        return values

    def __buffer__(self, flags: int) -> memoryview:
        """The values for `memoryview`, which asks from Python 3.12 on."""
        return memoryview(self.__array__())

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        values: Any = self._read()
        if max_version is None or max_version < (1, 0):
            # Nobody can be told that it is read-only: a copy is for who does not ask.
            values = values.copy() if copy is not False else _writable(values)
        return values.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _require_memory(self) -> None:
        if not has_memory(self.nbytes):
            raise self._no_memory()

    def _no_memory(self) -> errors.OutOfMemoryError:
        return errors.OutOfMemoryError(
            f"the host has no memory for {self.nbytes} bytes, of an array of shape "
            f"{self._shape} and dtype {self._dtype}"
        )

    def block_until_ready(self) -> Array:
        """Waits until the array has been computed: for measurements of time.

        Returns:
          The array itself.

        Example:
          >>> fnp.ones(2).block_until_ready()
          Array([1., 1.], dtype=float32)
        """
        return backend().block_until_ready(self)

    def is_ready(self) -> bool:
        return True

    def platform(self) -> str:
        """The platform of the device that holds the array."""
        return backend().device_of(self).platform

    def delete(self) -> None:
        """Lets go of the memory at once; the array must not be used again.

        Raises:
          DeletedArrayError: every later use of it.

        Example:
          >>> x = fnp.ones(3)
          >>> x.delete()
          >>> x.is_deleted()
          True
        """
        self._buffer = self._host = None

    def is_deleted(self) -> bool:
        """Has it been deleted, or donated to a jitted function?"""
        return self._buffer is None and self._host is None

    def _deletion_error(self) -> errors.DeletedArrayError:
        return errors.DeletedArrayError(
            f"an array of {self._dtype} with shape {self._shape} was used after it "
            "had been deleted or donated to a jitted function; use the result of that "
            "call instead, or do not donate it"
        )

    def is_held_alone(self, buffer: Buffer) -> bool:
        """Does nobody but this array, and the caller, see the memory of its buffer?"""
        self._host = None  # a view of ours; those of users count
        return is_exclusive(buffer, 2)  # our slot, and the caller's variable

    def to_device(self, device: Any, *, stream: None = None) -> Array:
        """The array on another device.

        Args:
          device: a device, its name, or a sharding, as `device_put` takes it.
          stream: must be None.

        Raises:
          DeviceError: there is no such device.

        Example:
          >>> fnp.ones(2).to_device("interpreter").devices()
          {<device interpreter>}
        """
        return backend().device_put(self, device)

    def item(self, *index: Any) -> Any:
        """The element as a Python scalar.

        Args:
          index: which one: by number, row by row, or an index per axis; none for the
            only one.

        Raises:
          ValueError: there are several, and no index.

        Example:
          >>> fnp.array([[1, 2], [3, 4]]).item(1, 0)
          3
        """
        self._require_numbers()
        return self._read().item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python scalars; of an array without axes the scalar.

        Example:
          >>> fnp.array([[1, 2], [3, 4]]).tolist()
          [[1, 2], [3, 4]]
        """
        self._require_numbers()
        return self._read().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self._read().tobytes(order)

    def _scalar(self, what: str) -> Any:
        self._require_numbers()
        values = self._read()
        if values.size != 1:
            raise errors.ArgumentError(
                f"{what}() takes an array of one element, got shape {self._shape}; "
                "use .any(), .all() or an index"
            )
        return values.item() if values.dtype.isbuiltin else np.reshape(values, ())[()]

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if not dtypes.is_integer(self._dtype):
            raise errors.ArgumentError(
                f"an index must be an integer, got {self._dtype}"
            )
        return int(self._scalar("index"))

    def __format__(self, spec: str) -> str:
        if self._shape == () and not dtypes.is_key(self._dtype):
            return format(self._read().item(), spec)
        if spec:
            raise errors.ArgumentError(
                f"the format {spec!r} is one of a number, but the array has shape "
                f"{self._shape}; format its elements, or str(x)"
            )
        return str(self)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        if dtypes.is_key(self._dtype):
            name = dtypes.name_of(self._dtype)
            words = self.numpy()[name]
            return f"Array({self._shape}, dtype={name}) overlaying:\n{words}"
        body = np.array2string(self.numpy(), separator=", ", prefix="Array(")
        if 0 in self.shape:
            body = f"{body}, shape={self.shape}"
        return f"Array({body}, dtype={self._dtype}{weak})"

    def __str__(self) -> str:
        return repr(self) if dtypes.is_key(self._dtype) else str(self.numpy())

    def __copy__(self) -> Array:
        return self.__deepcopy__(None)

    def __deepcopy__(self, memo: Any) -> Array:
        self._require_memory()
        try:
            if (memory := self.memory).host:
                return Array.of(copy_aligned(self.numpy()), self.weak_type)
            buffer = self.copy_to(memory)
            return Array(self._shape, self._dtype, self.weak_type, buffer)
        except MemoryError:
            raise self._no_memory() from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Array.of, (self.numpy(), self.weak_type)


def given_sharding(x: Any) -> Any:
    """The sharding that was given for an array; None of any other value."""
    return getattr(x, "given_sharding", None)


def is_array(value: Any) -> TypeGuard[Array]:
    """Is it an Array, and no traced value, which is an instance of Array as well?"""
    return type(value) is Array or Array in type(value).__mro__


def is_away(arrays: Iterable[Array]) -> bool:
    """Is one of the arrays in memory that NumPy does not read?"""
    for array in arrays:
        buffer = array._buffer  # pyright: ignore[reportPrivateUsage]
        memory: Any = array.memory if buffer is None else buffer.device
        if not memory.host:
            return True
    return False


def put_somewhere(arrays: Sequence[Array]) -> Array | None:
    """The first of the arrays that were put on devices on purpose; None of others.

    Raises:
      ShardingError: another one was put on others.
    """
    first: Array | None = None
    for array in arrays:
        if not array.committed:
            continue
        if first is None:
            first = array
        elif array.devices() != first.devices():
            one, other = [
                f"shape {x.shape} on {', '.join(sorted(d.name for d in x.devices()))}"
                for x in (first, array)
            ]
            raise errors.ShardingError(
                "Received incompatible devices for jitted computation: arguments must "
                f"be on the same devices, got {one}, and {other}; move them with "
                "ftrace.device_put"
            )
    return first
