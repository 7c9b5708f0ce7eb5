"""What the native entry walks over, as words in memory: see `runner.records`."""

from __future__ import annotations

from ftrace.devices.llvm.runtime.vm.records import Word
from ftrace.ground.fast_dataclasses import NamedTuple

#: Size classes of buffers; those of the largest sizes that can be addressed fit.
CLASSES = 512

#: Kinds of arguments.
(
    ARRAY, SEQUENCE, DICT, NOTHING, STATIC, NUMPY, FLOAT32, FLOAT64, INT32, BOOL,
    DONATED, OVERWRITTEN, SCALAR,
) = range(13)  # fmt: skip

#: Kinds of results; HOSTED and GIVEN are those of eager calls.
(RESULT, TUPLE, LIST, MAPPING, NAMEDTUPLE, NONE, HOSTED, GIVEN) = range(8)


class State(NamedTuple):
    """What the native code knows of this process; addresses of objects but for counts.

    Attributes:
      array, buffer, host_buffer, ndarray: classes.
      host, device: where buffers of arguments may be.
      variable, settings, default: the configuration: of the context, or under a name
        in the dict of a module.
      more: called for (size class, bytes) where no buffer is free.
      no_memory: raises what a program raises that finds no memory.
      plain: the name of the method that is called where native code does not go on.
      links: where a jitted function keeps its records, in bytes.
      spare, spares: a list of dead Arrays, and how long it is.
      in_use, kept, peak, limit: bytes of buffers.
      clock: counts the buffers that were given back.
      kernels, operations, bytes, nanoseconds: what calls have done.
      none, dict, float, complex, int, int64, float64, bool, true: objects of the
        interpreter and of NumPy.
      tuple_new: `tuple.__new__`.
      none_type, ellipsis_type, type, tuple, list, slice, exception: classes.
      dtypes: the class of the classes of dtypes.
      constants: a list of classes whose objects never change.
      scalars: a list of the classes of NumPy's numbers.
      entries, marks: the inline cache of eager calls, and how often it missed.
      recording: 1 while a call is recorded.
      traces: the list of all open scopes.
      methods: the functions behind methods of arrays.
      integers: a list of the classes of NumPy's integers.
      behind, numbers, indexed: places of what a public function holds.
      on_miss, aval_of, host_of, settle, as_ndarray: functions, see `lookup`.
      hush_variable, silence: what silences NumPy.
      new_ndarray: makes an array of NumPy's.
    """

    array: Word
    buffer: Word
    host_buffer: Word
    ndarray: Word
    host: Word
    device: Word
    variable: Word
    settings: Word
    default: Word
    more: Word
    no_memory: Word
    plain: Word
    links: Word
    spare: Word
    spares: Word
    in_use: Word
    kept: Word
    peak: Word
    limit: Word
    clock: Word
    kernels: Word
    operations: Word
    bytes: Word
    nanoseconds: Word
    none: Word
    dict: Word
    text: Word
    float: Word
    complex: Word
    int: Word
    int64: Word
    float64: Word
    bool: Word
    true: Word
    tuple_new: Word
    none_type: Word
    ellipsis_type: Word
    type: Word
    tuple: Word
    list: Word
    slice: Word
    exception: Word
    dtypes: Word
    constants: Word
    scalars: Word
    integers: Word
    entries: Word
    marks: Word
    recording: Word
    traces: Word
    methods: Word
    behind: Word
    numbers: Word
    indexed: Word
    on_miss: Word
    aval_of: Word
    host_of: Word
    settle: Word
    as_ndarray: Word
    hush_variable: Word
    silence: Word
    new_ndarray: Word


class Class(NamedTuple):
    """A size class of buffers: those that are free.

    Attributes:
      first: the one that was given back last.
      stamp: when that was.
    """

    first: Word
    stamp: Word


class Call(NamedTuple):
    """A program and the signature that it is for.

    Attributes:
      owner: the object that keeps all of this in memory.
      config: the configuration.
      entry, threads: what `run` takes.
      positional, named, names: how many arguments, and the array of the names.
      parts: what is expected of each argument.
      captures, captured: how many arrays the function closed over, and `Capture`s.
      inputs: how many leaves the program takes.
      donations, donated: how many inputs the caller gives up, and their numbers.
      overwrites, overwritten: likewise those that the program writes.
      makes, made: how many buffers it is given besides, and their `Make`s.
      result: what it gives.
      kernels, operations, bytes: what a run counts as.
    """

    owner: Word
    config: Word
    entry: Word
    threads: Word
    positional: Word
    named: Word
    names: Word
    parts: Word
    captures: Word
    captured: Word
    inputs: Word
    donations: Word
    donated: Word
    overwrites: Word
    overwritten: Word
    makes: Word
    made: Word
    result: Word
    kernels: Word
    operations: Word
    bytes: Word


class Capture(NamedTuple):
    """An array that a function closed over, and what is expected of it."""

    array: Word
    part: Word


class Make(NamedTuple):
    """A buffer that a call takes: its size class, its bytes, and these in use."""

    size_class: Word
    nbytes: Word


# Parts of arguments: each begins with its kind.


class LeafPart(NamedTuple):
    """A leaf.

    Attributes:
      number: its place among the inputs of the program.
      expected: of an Array its type as traces know it, of NumPy's its dtype; of a
        number of NumPy's its class.
      ndim, sizes: of NumPy's array, its shape; of a number 1 if it has to fit int32.
    """

    kind: Word
    number: Word
    expected: Word
    ndim: Word = 0
    sizes: Word = 0


class ContainerPart(NamedTuple):
    """A sequence of `length` parts, or a dict; the keys of a dict stand in an array."""

    kind: Word
    type: Word
    length: Word
    parts: Word
    keys: Word = 0


class ObjectPart(NamedTuple):
    """This object, or None."""

    kind: Word
    object: Word


# Parts of results.


class ResultPart(NamedTuple):
    """An Array: the number of what holds its values, and what its slots hold.

    That is a buffer among those of the call or, HOSTED, an array of NumPy's.
    """

    kind: Word
    number: Word
    aval: Word
    shape: Word
    dtype: Word
    weak_type: Word


class GivenPart(NamedTuple):
    """An object of the call itself, by its number."""

    kind: Word
    number: Word


class BuiltPart(NamedTuple):
    """A container: its class, its parts; of a dict, how it is made.

    Attributes:
      keys: the array of them.
      template: a dict of these keys: a copy has them in place.
      slots: where copies have their values, in bytes from `probe.KEYS`; 0 if that is
        not known.
    """

    kind: Word
    type: Word
    length: Word
    parts: Word
    keys: Word = 0
    template: Word = 0
    slots: Word = 0
