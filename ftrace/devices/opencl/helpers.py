"""Functions in OpenCL C that kernels call, by name; a source holds those it needs.

What OpenCL C has under another meaning, or not at all: 16-bit floats without
cl_khr_fp16, division of integers that never traps, casts that saturate. And what it
has, under a name of ours: PoCL's own floor, sqrt or fma are calls into a library that
its compiler neither inlines nor vectorises (ten times slower); there the builtins of
its compiler, clang, take their place.
"""

from __future__ import annotations

import numpy as np

from ftrace import dtypes
from ftrace.devices.opencl.scalar_ops import C_TYPES, literal

_ROUNDING = ("floor", "ceil", "trunc", "rint", "sqrt", "fabs")

_SHORT_FLOATS = {
    "float_of_half": """
float float_of_half(ushort h) {
  uint m = h & 0x7fffu;
  uint normal = (m << 13) + (m < 0x7c00u ? 0x38000000u : 0x70000000u);
  uint bits = m < 0x400u ? as_uint((float)m * 0x1p-24f) : normal;
  return as_float(bits | (uint)(h & 0x8000u) << 16);
}
""",
    "half_of_float": """
ushort half_of_float(float x) {
  uint bits = as_uint(x), m = bits & 0x7fffffffu;
  uint rounded = (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13;
  uint h = rounded > 0x7c00u ? 0x7c00u : rounded;
  h = m < 0x38800000u ? as_uint(as_float(m) + 0.5f) - 0x3f000000u : h;
  h = m > 0x7f800000u ? 0x7e00u : h;
  return (ushort)(h | (bits >> 16 & 0x8000u));
}
""",
    "float_of_bfloat": """
float float_of_bfloat(ushort h) { return as_float((uint)h << 16); }
""",
    "bfloat_of_float": """
ushort bfloat_of_float(float x) {
  uint bits = as_uint(x), quiet = bits >> 16 | 0x40u;
  uint rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
""",
}


def helper_source(name: str, clang: bool) -> str:
    """The source of a helper function: `floor_float`, `quotient_int` and so on.

    Args:
      clang: write clang's builtins instead of OpenCL's.
    """
    if name in _SHORT_FLOATS:
        return _SHORT_FLOATS[name].lstrip()
    kind, _, types = name.partition("_")
    if kind in (*_ROUNDING, "fma"):
        return _builtin(name, kind, types, clang)
    return {
        "quotient": _quotient, "remainder": _remainder, "saturate": _saturate,
        "multiply": _multiply_add, "load": _load_vector,
    }[kind](name, types, clang)  # fmt: skip


def _builtin(name: str, function: str, c_type: str, clang: bool) -> str:
    names = ("a", "b", "c") if function == "fma" else ("x",)
    if clang:
        function = f"__builtin_{function}{'f' if c_type == 'float' else ''}"
    parameters = ", ".join(f"{c_type} {x}" for x in names)
    return (
        f"{c_type} {name}({parameters}) {{ return {function}({', '.join(names)}); }}\n"
    )


def _quotient(name: str, c_type: str, clang: bool) -> str:
    """x/0 is -1, and the least number over -1 wraps around."""
    unsigned = c_type.startswith("u")
    negated = "" if unsigned else f"y == -1 ? ({c_type})(0 - (u{c_type})x) : "
    unsafe = "y == 0" if unsigned else "y == 0 || y == -1"
    return (
        f"{c_type} {name}({c_type} x, {c_type} y) {{\n"
        f"  {c_type} q = x / (({unsafe}) ? ({c_type})1 : y);\n"
        f"  return y == 0 ? ({c_type})-1 : {negated}q;\n}}\n"
    )


def _remainder(name: str, c_type: str, clang: bool) -> str:
    """X rem 0 is x."""
    unsafe = "y == 0" if c_type.startswith("u") else "y == 0 || y == -1"
    return (
        f"{c_type} {name}({c_type} x, {c_type} y) {{\n"
        f"  {c_type} r = x % (({unsafe}) ? ({c_type})1 : y);\n"
        f"  return y == 0 ? x : r;\n}}\n"
    )


def _saturate(name: str, types: str, clang: bool) -> str:
    """Float to integer: truncated and clamped; NaN is 0."""
    source, target = types.split("_")
    dtype = next(d for d in dtypes.INTEGER if C_TYPES[d] == target)
    info = np.iinfo(dtype)
    low, high = literal(info.min, dtype), literal(info.max, dtype)
    suffix = "f" if source == "float" else ""
    above = f"{float(int(info.max) + 1).hex()}{suffix}"
    below = f"{float(info.min).hex()}{suffix}"
    return (
        f"{target} {name}({source} x) {{\n"
        f"  bool inside = x > {below} && x < {above};\n"
        f"  {target} cut = ({target})(inside ? x : 0);\n"
        f"  return x >= {above} ? {high} : x <= {below} ? {low} : cut;\n}}\n"
    )


def _multiply_add(name: str, types: str, clang: bool) -> str:
    """a·b + c, rounded once where that is fast and twice elsewhere; also of vectors."""
    c_type = types.removeprefix("add_")
    value = "a * b + c"
    if c_type.startswith(("int", "long")):
        a, b, c = (f"as_u{c_type}({x})" for x in "abc")
        value = f"as_{c_type}({a} * {b} + {c})"
    return (
        f"{c_type} {name}({c_type} a, {c_type} b, {c_type} c) {{\n"
        f"  #pragma OPENCL FP_CONTRACT ON\n  return {value};\n}}\n"
    )


def _load_vector(name: str, vector: str, clang: bool) -> str:
    """A vector from memory that is aligned to its elements only."""
    element = vector.rstrip("0123456789")
    lanes = vector.removeprefix(element)
    pointer = f"__global const {element} *p"
    if not clang:
        return f"{vector} {name}({pointer}) {{ return vload{lanes}(0, p); }}\n"
    loose = f"loose_{vector}"
    return (
        f"typedef {vector} {loose} __attribute__((aligned(sizeof({element}))));\n"
        f"{vector} {name}({pointer}) {{ return *(__global const {loose} *)p; }}\n"
    )
