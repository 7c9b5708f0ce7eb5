"""Mistakes that a checker must find: each line that says so, and no other one.

It is read, and not run.
"""

from __future__ import annotations

import ftrace as ft
import ftrace.numpy as fnp


@ft.jit
def scaled(x: ft.Array, power: int = 2) -> ft.Array:
    return x**power


x = fnp.ones(3)
scaled(x, pwoer=3)  # wrong
scaled()  # wrong
ft.grad(scaled)(x, 2, 3)  # wrong
ft.vmap(scaled)(x, powr=3)  # wrong
fnp.sum("text")  # wrong
fnp.ones(3, shap=4)  # wrong
fnp.no_such_function(x)  # wrong
x.no_such_method()  # wrong
ft.jit(scaled, static_argnum=1)  # wrong
scaled(x).reshape(3).sum()
