"""Functions of LLVM IR on Python's objects: reference counts, and what they call."""

from __future__ import annotations

from ftrace.devices.llvm.call.cpython.object_layout import TYPE
from ftrace.devices.llvm.call.cpython.records import State
from ftrace.devices.llvm.ir.function_builder import Function, View

DECLARATIONS = """
@state = internal global ptr null
@two_numbers = internal constant [3 x i8] c"nn\\00"

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare double @llvm.fabs.f64(double)
declare i32 @run_pointers(ptr, ptr, i64)
declare i32 @clock_gettime(i32, ptr)
declare void @_Py_Dealloc(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyContextVar_Set(ptr, ptr)
declare i32 @PyContextVar_Reset(ptr, ptr)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)
declare ptr @plain_call(ptr, ptr, i64, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyDict_Copy(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i64 @PyLong_AsSsize_t(ptr)
declare ptr @PyList_New(i64)
declare void @Py_IncRef(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare void @PyObject_Free(ptr)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i32 @PyUnicode_Compare(ptr, ptr)
"""


class ObjectFunction(Function):
    """A function in the making that touches Python's objects.

    Args:
      immortal: some objects have a count that must stay as it is.
    """

    def __init__(
        self,
        name: str,
        result: str,
        *parameters: str,
        visible: bool = False,
        immortal: bool = False,
    ) -> None:
        super().__init__(name, result, *parameters, visible=visible)
        self._immortal = immortal

    def state(self) -> View:
        return self.view(self.load("ptr", "@state"), State)

    def equal(self, kind: str, left: str | int, right: str | int) -> str:
        return self.let(f"icmp eq {kind} {left}, {right}")

    def differ(self, kind: str, left: str | int, right: str | int) -> str:
        return self.let(f"icmp ne {kind} {left}, {right}")

    def type_of(self, thing: str) -> str:
        return self.load("ptr", self.beyond(thing, TYPE))

    def at(self, thing: str, offset: str | int) -> str:
        """The pointer so many bytes after an object's beginning."""
        return self.load("ptr", self.beyond(thing, offset))

    def hold(self, thing: str) -> None:
        """One more reference."""
        kind = "i32" if self._immortal else "i64"
        more = self.let(f"add {kind} {self.load(kind, thing)}, 1")
        if not self._immortal:
            self.store(kind, more, thing)
            return
        with self.when(self.differ(kind, more, 0)):
            self.store(kind, more, thing)

    def let_go(self, thing: str) -> None:
        """One reference less."""
        self.do(f"call void @let_go(ptr {thing})")

    def ask(self, function: str, *operands: str) -> str:
        """What a function of Python's returns for some objects; or null."""
        listed = ", ".join(f"ptr {x}" for x in (function, *operands, "null"))
        return self.let(f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs({listed})")

    def add_to(self, record: View, field: str, amount: str | int) -> str:
        """Adds to a word; what it is now."""
        place = record.at(field)
        total = self.let(f"add i64 {self.load('i64', place)}, {amount}")
        self.store("i64", total, place)
        return total


def objects_ir(immortal: bool) -> str:
    """What all other functions use."""
    return DECLARATIONS + _set_state().text + _let_go(immortal).text


def _set_state() -> Function:
    f = Function("set_state", "void", "ptr %words", visible=True)
    f.store("ptr", "%words", "@state")
    f.give()
    return f


def _let_go(immortal: bool) -> Function:
    f = ObjectFunction("let_go", "void", "ptr %thing")
    if immortal:
        low = f.load("i32", "%thing")
        with f.when(f.let(f"icmp slt i32 {low}, 0")):
            f.give()
    less = f.let(f"sub i64 {f.load('i64', '%thing')}, 1")
    f.store("i64", less, "%thing")
    with f.when(f.equal("i64", less, 0)):
        f.do("call void @_Py_Dealloc(ptr %thing)")
    f.give()
    return f
