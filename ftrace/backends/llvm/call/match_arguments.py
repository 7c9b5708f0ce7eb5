"""Arguments in native code: is everything as expected, and where is the memory?

    find(pattern, object, places) -> 1, or 0 if something is not as expected

No code of Python's runs in here, so that nothing changes while it is looked at, and
borrowed references stay good.
"""

from __future__ import annotations

from ftrace.backends.llvm.call import object_layout as layout, records as r
from ftrace.backends.llvm.call.object_ir import ObjectFunction
from ftrace.backends.llvm.ir.function_builder import Function, Routines, View
from ftrace.backends.llvm.runtime.records import Record

_PARAMETERS = ("ptr %pattern", "ptr %thing", "ptr %findings")


class Findings(Record):
    """Where findings go: arrays with one entry per input of the program.

    Attributes:
      frame: pointers to the memory.
      held: the objects that keep it.
      cells: memory for numbers; of arrays that are given up, the arrays.
    """

    fields = ("frame", "held", "cells")


arguments = Routines(ObjectFunction)


#: What looks at an argument of a kind.
_FINDERS = {
    r.ARRAY: "array", r.HOSTED: "array", r.BUFFERED: "array", r.DONATED: "donated",
    r.OVERWRITTEN: "donated", r.NUMPY: "numpy", r.STRIDED: "numpy",
    r.SCALAR: "scalar",
    r.FLOAT32: "number", r.FLOAT64: "number", r.INT32: "number",
    r.STATIC: "same", r.INTEGER: "integer",
    r.TUPLE: "sequence", r.LIST: "sequence", r.DICT: "dict",
}  # fmt: skip
_LISTED = ", ".join([f"ptr @find_{_FINDERS[kind]}" for kind in range(len(_FINDERS))])
FINDERS = f"@finders = internal constant [{len(_FINDERS)} x ptr] [{_LISTED}]\n"


@arguments("i32", *_PARAMETERS)
def find(f: ObjectFunction) -> None:
    finder = f.slot("@finders", f.load("i64", "%pattern"))
    f.ret(f.let(f"call i32 {finder}({', '.join(_PARAMETERS)})"))


@arguments("i32", *_PARAMETERS)
def find_same(f: ObjectFunction) -> None:
    """This very object."""
    expected = f.view("%pattern", r.ObjectPattern).pointer("object")
    f.ret(f.let(f"zext i1 {f.equal('ptr', '%thing', expected)} to i32"))


def require(f: Function, pattern: str, thing: str) -> None:
    """Refuses where an object is not what a pattern expects."""
    f.ret_if(f.let(f"icmp eq i32 {find(f, pattern, thing, '%findings')}, 0"), 0)


def _refuse_unless(f: Function, condition: str) -> None:
    f.ret_if(f.let(f"xor i1 {condition}, true"), 0)


def _note_leaf(f: Function, data: str, holder: str) -> None:
    """Notes where the leaf's memory is, and ends."""
    number = f.view("%pattern", r.LeafPattern).number("number")
    places = f.view("%findings", Findings)
    f.set_slot(places.pointer("frame"), number, data)
    f.set_slot(places.pointer("held"), number, holder)
    f.ret(1)


@arguments("i32", *_PARAMETERS)
def find_array(f: ObjectFunction, offsets: layout.Offsets) -> None:
    """An Array of the type that is expected, in the host's memory.

    What has its memory is held. A HOSTED one is held itself, and need not be row-major
    and aligned; of one that is not no memory is noted. A BUFFERED one is no array of
    NumPy's, which has a shape of its own.
    """
    pattern, state = f.view("%pattern", r.LeafPattern), f.state()
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), state.pointer("array")))
    aval = f.at("%thing", offsets.aval)
    _refuse_unless(f, f.equal("ptr", aval, pattern.pointer("expected")))
    buffer = f.at("%thing", offsets.buffer)
    _refuse_unless(f, f.differ("ptr", buffer, "null"))
    hosted = f.equal("i64", pattern.number("kind"), r.HOSTED)
    holder = f.let(f"select i1 {hosted}, ptr %thing, ptr {buffer}")
    with f.when(f.equal("ptr", f.type_of(buffer), state.pointer("buffer"))):
        _note_leaf(f, f.view(buffer, r.BufferObject).pointer("data"), holder)
    with f.when(f.equal("ptr", buffer, state.pointer("none"))):
        _refuse_unless(f, f.differ("i64", pattern.number("kind"), r.BUFFERED))
        host = f.at("%thing", offsets.host)
        plain = f.equal("ptr", f.type_of(host), state.pointer("ndarray"))
        _refuse_unless(f, plain)
        orderly = _is_orderly(f, host)
        _refuse_unless(f, f.let(f"or i1 {hosted}, {orderly}"))
        data = f.let(f"select i1 {orderly}, ptr {f.at(host, layout.DATA)}, ptr null")
        _note_leaf(f, data, f.let(f"select i1 {hosted}, ptr %thing, ptr {host}"))
    _refuse_unless(f, f.equal("ptr", f.type_of(buffer), state.pointer("host_buffer")))
    device = f.at(buffer, offsets.device)
    here = f.equal("ptr", device, state.pointer("device"))
    host = f.equal("ptr", device, state.pointer("host"))
    _refuse_unless(f, f.let(f"or i1 {here}, {host}"))
    memory = f.at(buffer, offsets.memory)
    _refuse_unless(f, f.differ("ptr", memory, "null"))
    _refuse_unless(f, f.equal("ptr", f.type_of(memory), state.pointer("ndarray")))
    _note_leaf(f, f.at(memory, layout.DATA), holder)


def _is_orderly(f: ObjectFunction, array: str) -> str:
    """Is an array of NumPy's row-major and aligned?"""
    flags = f.load("i32", f.beyond(array, layout.FLAGS))
    found = f.let(f"and i32 {flags}, {layout.ORDERLY}")
    return f.equal("i32", found, layout.ORDERLY)


@arguments("i32", *_PARAMETERS)
def find_donated(f: ObjectFunction, offsets: layout.Offsets) -> None:
    """An Array that is given up; if it is written, nobody else sees its memory."""
    found = find_array(f, "%pattern", "%thing", "%findings")
    _refuse_unless(f, f.differ("i32", found, 0))
    pattern, places = f.view("%pattern", r.LeafPattern), f.view("%findings", Findings)
    number = pattern.number("number")
    with f.when(f.equal("i64", pattern.number("kind"), r.OVERWRITTEN)):
        host = f.at("%thing", offsets.host)
        missing = f.equal("ptr", host, "null")
        none = f.equal("ptr", host, f.state().pointer("none"))
        _refuse_unless(f, f.let(f"or i1 {missing}, {none}"))
        held = f.slot(places.pointer("held"), number)
        own = f.equal("ptr", f.type_of(held), f.state().pointer("buffer"))
        _refuse_unless(f, own)
        buffer = f.view(held, r.BufferObject)
        for thing in (held, buffer.pointer("memory"), buffer.pointer("raw")):
            _refuse_unless(f, f.equal("i32", f.load("i32", thing), 1))
    f.set_slot(places.pointer("cells"), number, "%thing")
    f.ret(1)


@arguments("i32", "ptr %record", "ptr %held")
def all_differ(f: ObjectFunction) -> None:
    """1 if no buffer that the program writes is given to it a second time.

    How often each is given is counted where buffers that are free have the next one.
    """
    record, state = f.view("%record", r.Call), f.state()
    overwrites, overwritten = record.number("overwrites"), record.pointer("overwritten")

    def find_written(i: str) -> View:
        number = f.load("i64", f.word(overwritten, i))
        return f.view(f.slot("%held", number), r.BufferObject)

    with f.repeat(overwrites) as i:
        find_written(i).set("next", 0)
    with f.repeat(record.number("inputs")) as i:
        held = f.slot("%held", i)
        with f.when(f.equal("ptr", f.type_of(held), state.pointer("buffer"))):
            f.add_to(f.view(held, r.BufferObject), "next", 1)
    with f.repeat(overwrites) as i:
        _refuse_unless(f, f.equal("i64", find_written(i).number("next"), 1))
    f.ret(1)


@arguments("i32", *_PARAMETERS)
def find_sequence(f: ObjectFunction) -> None:
    """A tuple, a list or a namedtuple of this class and length."""
    pattern = f.view("%pattern", r.ContainerPattern)
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), pattern.pointer("type")))
    kind, count, parts = (
        pattern.number("kind"), pattern.number("length"), pattern.pointer("parts")
    )  # fmt: skip
    items = f.variable("ptr", f.beyond("%thing", layout.ITEMS))
    with f.when(f.equal("i64", kind, r.LIST)):
        f.store("ptr", f.at("%thing", layout.LISTED), items)
    size = f.load("i64", f.beyond("%thing", layout.SIZE))
    _refuse_unless(f, f.equal("i64", size, count))
    with f.repeat(count) as i:
        require(f, f.slot(parts, i), f.slot(f.load("ptr", items), i))
    f.ret(1)


@arguments("i32", *_PARAMETERS)
def find_dict(f: ObjectFunction) -> None:
    """A dict with these keys in this order: the same objects, or the same text."""
    pattern, state = f.view("%pattern", r.ContainerPattern), f.state()
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), state.pointer("dict")))
    count, parts = pattern.number("length"), pattern.pointer("parts")
    size = f.load("i64", f.beyond("%thing", layout.SIZE))
    _refuse_unless(f, f.equal("i64", size, count))
    keys, text = pattern.pointer("keys"), state.pointer("text")
    position = f.variable("i64", 0)
    key, value = f.allocate("ptr"), f.allocate("ptr")
    with f.repeat(count) as i:
        places = "%thing", position, key, value
        more = f.outside("i32 PyDict_Next(ptr, ptr, ptr, ptr)", *places)
        _refuse_unless(f, f.differ("i32", more, 0))
        given, expected = f.load("ptr", key), f.slot(keys, i)
        with f.when(f.differ("ptr", given, expected)):
            for one in (given, expected):
                _refuse_unless(f, f.equal("ptr", f.type_of(one), text))
            order = f.outside("i32 PyUnicode_Compare(ptr, ptr)", given, expected)
            _refuse_unless(f, f.equal("i32", order, 0))
        require(f, f.slot(parts, i), f.load("ptr", value))
    f.ret(1)


@arguments("i32", *_PARAMETERS)
def find_numpy(f: ObjectFunction) -> None:
    """An array of NumPy of this dtype and shape, row-major and aligned.

    A STRIDED one need not be; no memory is noted then.
    """
    pattern, orderly = f.view("%pattern", r.LeafPattern), _is_orderly(f, "%thing")
    kind = f.state().pointer("ndarray")
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), kind))
    dtype = f.at("%thing", layout.DTYPE)
    _refuse_unless(f, f.equal("ptr", dtype, pattern.pointer("expected")))
    strided = f.equal("i64", pattern.number("kind"), r.STRIDED)
    _refuse_unless(f, f.let(f"or i1 {strided}, {orderly}"))
    ndim = f.let(f"sext i32 {f.load('i32', f.beyond('%thing', layout.NDIM))} to i64")
    _refuse_unless(f, f.equal("i64", ndim, pattern.number("ndim")))
    sizes, given = pattern.pointer("sizes"), f.at("%thing", layout.SHAPE)
    with f.repeat(ndim) as i:
        size = f.load("i64", f.word(given, i))
        _refuse_unless(f, f.equal("i64", size, f.load("i64", f.word(sizes, i))))
    data = f.at("%thing", layout.DATA)
    _note_leaf(f, f.let(f"select i1 {orderly}, ptr {data}, ptr null"), "%thing")


@arguments("i32", *_PARAMETERS)
def find_scalar(f: ObjectFunction) -> None:
    """A scalar of NumPy's, of this class: it is where its object has it."""
    pattern = f.view("%pattern", r.LeafPattern)
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), pattern.pointer("expected")))
    with f.when(f.differ("i64", pattern.number("ndim"), 0)):
        value = f.load("i64", f.beyond("%thing", layout.NUMBER))
        low = f.let(f"trunc i64 {value} to i32")
        _refuse_unless(f, f.equal("i64", f.let(f"sext i32 {low} to i64"), value))
    _note_leaf(f, f.beyond("%thing", layout.NUMBER), "%thing")


@arguments("i32", *_PARAMETERS)
def find_integer(f: ObjectFunction) -> None:
    """This integer, whichever object it is."""
    _refuse_unless(f, f.equal("ptr", f.type_of("%thing"), f.state().pointer("int")))
    value, fits = _integer(f)
    same = f.equal("i64", value, f.view("%pattern", r.ObjectPattern).number("object"))
    f.ret(f.let(f"zext i1 {f.let(f'and i1 {same}, {fits}')} to i32"))


def _integer(f: ObjectFunction) -> tuple[str, str]:
    """The value of an integer, and does it fit 64 bits?"""
    over = f.variable("i32", 0)
    value = f.outside("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)", "%thing", over)
    return value, f.equal("i32", f.load("i32", over), 0)


@arguments("i32", *_PARAMETERS)
def find_number(f: ObjectFunction) -> None:
    """A number of Python's that fits the input's dtype."""
    pattern, state = f.view("%pattern", r.LeafPattern), f.state()
    kind, given = pattern.number("kind"), f.type_of("%thing")
    cells = f.view("%findings", Findings).pointer("cells")
    cell = f.word(cells, pattern.number("number"))
    single, double = (f.equal("i64", kind, k) for k in (r.FLOAT32, r.FLOAT64))
    with f.when(f.let(f"or i1 {single}, {double}")):
        _refuse_unless(f, f.equal("ptr", given, state.pointer("float")))
        value = f.outside("double PyFloat_AsDouble(ptr)", "%thing")
        with f.when(double):
            f.store("double", value, cell)
            _note_leaf(f, cell, "%thing")
        size = f.outside("double llvm.fabs.f64(double)", value)
        # NumPy warns of what becomes infinite; infinities and NaN stay what they are.
        large = f.let(f"fcmp ogt double {size}, 0x47EFFFFFE0000000")
        infinite = f.let(f"fcmp oeq double {size}, 0x7FF0000000000000")
        lost = f.let(f"and i1 {large}, {f.let(f'xor i1 {infinite}, true')}")
        _refuse_unless(f, f.let(f"xor i1 {lost}, true"))
        f.store("float", f.let(f"fptrunc double {value} to float"), cell)
        _note_leaf(f, cell, "%thing")
    _refuse_unless(f, f.equal("ptr", given, state.pointer("int")))
    value, small = _integer(f)
    _refuse_unless(f, small)
    low = f.let(f"trunc i64 {value} to i32")
    _refuse_unless(f, f.equal("i64", f.let(f"sext i32 {low} to i64"), value))
    f.store("i32", low, cell)
    _note_leaf(f, cell, "%thing")
