"""What the native entry walks over, as words in memory: see `runtime.records`."""

from __future__ import annotations

from ftrace.backends.llvm.runtime.records import Record

#: Size classes of buffers; those of the largest sizes that can be addressed fit.
CLASSES = 512

#: Kinds of arguments: leaves, of which HOSTED and STRIDED ones are Arrays and arrays of
#: NumPy's of eager calls, BUFFERED ones Arrays whose memory is also that of a result of
#: another shape; what decides what is done; containers of these.
(
    ARRAY, DONATED, OVERWRITTEN, NUMPY, SCALAR, FLOAT32, FLOAT64, INT32, HOSTED,
    STRIDED, BUFFERED, STATIC, INTEGER, TUPLE, LIST, DICT,
) = range(16)  # fmt: skip

#: Kinds of results besides tuples and lists; a GIVEN one is an object of the call.
(RESULT, GIVEN, NONE, MAPPING, NAMEDTUPLE) = range(20, 25)

#: By the bytes of an element: the names of loops that choose of two.
SELECT = {size: f"select_{size}" for size in (1, 2, 4, 8)}
#: Loops that convert elements, by the characters of NumPy's dtypes.
CASTS = ("fd", "df", "if", "id", "lf", "ld", "?f", "?d", "?i", "?l", "il", "li")
#: The names of all loops.
LOOPS = {**SELECT, **{pair: f"cast_{pair.replace('?', 'b')}" for pair in CASTS}}


class State(Record):
    """What the native code knows of this process; addresses of objects but for counts.

    Attributes:
      array, buffer, host_buffer, ndarray: classes.
      host, device: where buffers of arguments may be.
      variable, settings, default: the configuration: of the context, or under a name
        in the dict of a module.
      more: called for (size class, bytes) where no buffer is free.
      no_memory: raises what a program raises that finds no memory.
      plain: the name of the method that is called where native code does not go on.
      links: where a `RecordedCallable` has its records, in bytes.
      spare, spares: a list of dead Arrays, and how long it is.
      in_use, cached, peak, limit: bytes of buffers.
      free: the first free buffer of each size class.
      kernels, operations, bytes, nanoseconds: what has run: see `base.Counters`.
      none, dict, text, float, int: objects of the interpreter.
      tuple_new: `tuple.__new__`.
      exception: a class.
      behind: where a public function has what it stands before.
      recording: 1 while a call is recorded.
      traces: the list of all open scopes.
      methods: the public functions that methods of arrays are.
      host_of: a function, see `entry`.
      hush_variable, silence: what silences NumPy.
      make_array: `PyArray_NewFromDescr` of NumPy.
    """

    fields = (
        "array", "buffer", "host_buffer", "ndarray", "host", "device", "variable",
        "settings", "default", "more", "no_memory", "plain", "links", "spare", "spares",
        "in_use", "cached", "peak", "limit", "free", "kernels", "operations", "bytes",
        "nanoseconds", "none", "dict", "text", "float", "int",
        "tuple_new", "exception", "behind", "recording", "traces", "methods", "host_of",
        "hush_variable", "silence", "make_array",
    )  # fmt: skip


class Call(Record):
    """What runs, and the signature that it is for.

    Attributes:
      owner: the object that keeps all of this in memory.
      config: the configuration.
      entry, threads: what `run` takes.
      positional, named, names: how many arguments, and the array of the names.
      patterns: what is expected of each argument.
      captures, captured: how many arrays the function closed over, and `Capture`s.
      inputs: how many leaves the program takes.
      donations, donated: how many inputs the caller gives up, and their numbers.
      overwrites, overwritten: likewise those that the program writes.
      makes, made: how many buffers it is given besides, and their `Make`s.
      sizes, dims: how many objects stand behind all others, and where each begins.
      result: what it gives.
      kernels, operations, bytes: what a run counts as.
      function: what is called in place of a program, on what NumPy has of the leaves;
        0 where there is one, None where the call is left to Python. What it gives
        stands behind the leaves: an object, or a tuple if `makes` is not 0.
      loops: `Loops` that do the same; 0 where there are none.
    """

    fields = (
        "owner", "config", "entry", "threads", "positional", "named", "names",
        "patterns", "captures", "captured", "inputs", "donations", "donated",
        "overwrites", "overwritten", "makes", "made", "sizes", "dims", "result",
        "kernels", "operations", "bytes", "function", "loops",
    )  # fmt: skip


class Capture(Record):
    """An array that a function closed over, and what is expected of it."""

    fields = ("array", "pattern")


class Make(Record):
    """A buffer that a call takes: its size class, its bytes, and these in use."""

    fields = ("size_class", "nbytes")


class Loops(Record):
    """What is done with the elements of an eager call: see `numpy_loops`.

    Attributes:
      makes, made: how many arrays are made, and their `NewArray`s.
      count, loops: how many `Loop`s, and these.
      memory: what stands behind the arrays; its first word is not 0 if they refuse.
    """

    fields = ("makes", "made", "count", "loops", "memory")


class NewArray(Record):
    """An array of NumPy's: its dtype, and its shape."""

    fields = ("dtype", "ndim", "sizes")


class Loop(Record):
    """So many rows of `count` elements, by a function of C's.

    Attributes:
      operands, places, strides: how many, their `OperandLocation`s, and from element to
        element.
    """

    fields = ("function", "data", "rows", "count", "operands", "places", "strides")


class OperandLocation(Record):
    """The number of an object, the bytes behind its beginning, and from row to row."""

    fields = ("slot", "offset", "step")


# Patterns of arguments: each begins with its kind.


class LeafPattern(Record):
    """A leaf.

    Attributes:
      number: its place among the leaves.
      expected: of an Array its type as traces know it, of NumPy's its dtype; of a
        scalar of NumPy's its class.
      ndim, sizes: of NumPy's array, its shape; of a scalar 1 if it has to fit int32.
    """

    fields = ("kind", "number", "expected", "ndim", "sizes")
    defaults = (0, 0)


class ContainerPattern(Record):
    """A sequence of `length` parts, or a dict; the keys of a dict stand in an array."""

    fields = ("kind", "type", "length", "parts", "keys")
    defaults = (0,)


class ObjectPattern(Record):
    """This object; an INTEGER of this value."""

    fields = ("kind", "object")


# Results, likewise.


class ArrayResult(Record):
    """An Array: the number of what holds its values, and what its slots hold.

    That is a buffer among those of the call or, of an eager one, an array of NumPy's.
    """

    fields = ("kind", "number", "aval", "shape", "dtype", "weak_type")


class ObjectResult(Record):
    """An object of the call itself, by its number."""

    fields = ("kind", "number")


class ContainerResult(Record):
    """A container: its class, its parts; of a dict, how it is made.

    Attributes:
      keys: the array of them.
      template: a dict of these keys: a copy has them in place.
      slots: where copies have their values, in bytes from `KEYS`; 0 if that is
        not known.
    """

    fields = ("kind", "type", "length", "parts", "keys", "template", "slots")
    defaults = (0, 0, 0)


class BufferObject(Record):
    """A buffer, as an object of Python's.

    Attributes:
      holders, type: the head of all objects.
      memory: a one-dimensional array of NumPy's; it is the buffer's alone.
      device, allocator: as of `ftrace.trace.arrays.buffer.Buffer`.
      nbytes: how much of it is used.
      data: where it begins.
      size: how much there is.
      size_class: the number of that size.
      raw: the array that owns the memory; `memory` refers to it.
      next: the next one that is free.
    """

    fields = (
        "holders", "type", "memory", "device", "allocator", "nbytes", "data", "size",
        "size_class", "raw", "next",
    )  # fmt: skip
