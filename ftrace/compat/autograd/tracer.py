"""Boxes: what stands for values while a derivative is taken."""

from ftrace.compat.autograd.core import (
    Box as Box,
    getval as getval,
    isbox as isbox,
    notrace_primitive as notrace_primitive,
    primitive as primitive,
    register_notrace as register_notrace,
)
