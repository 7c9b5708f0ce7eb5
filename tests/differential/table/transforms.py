"""Rows of what takes functions or trees: transforms, control flow, `tree`."""

from typing import Any

import numpy as np

from tests.differential.rows import names, read

CONTROL = """
cond: bool any any
switch: index any any
select_branch: bool same
while_loop fori_loop: any
while_carry fori_carry scan_carry branch: any [0,1,2,3,4,5,6,7]
scan: array any reverse=flag unroll=[1,2,True] length=[2,3]
map: array batch_size=[None,2]
"""

TRANSFORMS = """
grad value_and_grad: any argnums=[0,1,(0,),(0,1),(0,0),(),-1,2]
jacfwd jacrev jacobian hessian {small=12}: any argnums=[0,1,(0,),(0,1),(0,0),(),-1,2]
jvp: any real
vjp: any real
linearize: any real
linear_transpose: any real
vmap: array [0,-1,1,None,5] [0,-1,1,5]?
jit: any static_argnums=[(),1,(1,),0,5] donate_argnums=[(),1]
eval_shape make_jaxpr {modes=eager}: any
checkpoint remat named_call: any
custom_jvp custom_vjp custom_gradient closure_convert: any
pure_callback: array
device_put device_get block_until_ready {modes=plain}: any
ShapeDtypeStruct {modes=eager}: shape ['float32','int8','foo',float,None]
"""

TREE = """
tree_map tree_leaves tree_flatten tree_reduce: nested
tree_structure tree_all all_leaves {modes=eager}: nested
tree_transpose {modes=eager}: nested
tree_unflatten tree_broadcast tree_reduce_associative: nested
tree_flatten_with_path tree_leaves_with_path {modes=eager}: nested
tree_map_with_path: nested
Partial: any
"""


def _f(L: Any) -> Any:
    return lambda x, y: L.numpy.sin(x) * y + x


def _loss(L: Any) -> Any:
    return lambda x, y: L.numpy.sum(L.numpy.sin(x) * y)


def _derivative(name: str) -> Any:
    def program(L: Any, x: Any, **k: Any) -> Any:
        function = _loss(L) if name in ("grad", "value_and_grad", "hessian") else _f(L)
        return getattr(L, name)(function, **k)(x, 2.3)

    return program


def _jvp(L: Any, x: Any, t: Any) -> Any:
    return L.jvp(L.numpy.sin, (x,), (t,))


def _vjp(L: Any, x: Any, ct: Any) -> Any:
    return L.vjp(L.numpy.sin, x)[1](ct)


def _linearize(L: Any, x: Any, t: Any) -> Any:
    return L.linearize(L.numpy.sin, x)[1](t)


def _linear_transpose(L: Any, x: Any, ct: Any) -> Any:
    return L.linear_transpose(lambda v: v * 3, x)(ct)


def _scan(L: Any, xs: Any, init: Any, **k: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        return carry + x.sum(), carry * 2

    return L.lax.scan(step, init, xs, **k)


def _while(L: Any, x: Any) -> Any:
    return L.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))


#: Known numbers that the body of a loop, or a branch, multiplies by.
FACTORS = (np.float64(1.5), np.sqrt(2), np.int64(3), np.complex128(1j), np.uint64(3),
           np.float32(1.5), np.int8(3), 1.5)  # fmt: skip


def _while_carry(L: Any, x: Any, number: int) -> Any:
    def step(carry: Any) -> Any:
        return carry[0] + 1, carry[1] * FACTORS[number]

    return L.lax.while_loop(lambda c: c[0] < 3, step, (0, x))


def _fori_carry(L: Any, x: Any, number: int) -> Any:
    return L.lax.fori_loop(0, 3, lambda i, c: c * FACTORS[number] + i, x)


def _scan_carry(L: Any, x: Any, number: int) -> Any:
    def step(carry: Any, _: None) -> Any:
        return (carry[1], carry[0] * FACTORS[number]), carry[0]

    return L.lax.scan(step, (x, 1), None, length=3)


def _branch(L: Any, x: Any, number: int) -> Any:
    return L.lax.cond(True, lambda a: a * FACTORS[number], lambda a: a * 1, x)


def _custom_jvp(L: Any, x: Any) -> Any:
    @L.custom_jvp
    def f(x: Any) -> Any:
        return L.numpy.sin(x)

    f.defjvp(lambda primals, tangents: (L.numpy.sin(primals[0]), tangents[0] * 3))
    return f(x)


def _custom_vjp(L: Any, x: Any) -> Any:
    @L.custom_vjp
    def f(x: Any) -> Any:
        return L.numpy.sin(x)

    f.defvjp(lambda x: (L.numpy.sin(x), x), lambda x, ct: (ct * 3,))
    return f(x)


def _custom_gradient(L: Any, x: Any) -> Any:
    return L.custom_gradient(lambda x: (L.numpy.sin(x), lambda ct: (ct * 3,)))(x)


def _closure_convert(L: Any, x: Any) -> Any:
    function, consts = L.closure_convert(lambda y: y * x, 2.3)
    return function(2.3, *consts)


def _pure_callback(L: Any, x: Any) -> Any:
    shape = L.ShapeDtypeStruct(x.shape, x.dtype)
    return L.pure_callback(lambda v: v, shape, x, vmap_method="sequential")


def _eval_shape(L: Any, x: Any) -> Any:
    result = L.eval_shape(lambda x: {"a": L.numpy.sin(x), "b": [x]}, x)
    return [str(result["a"].shape), str(result["a"].dtype), str(result["b"][0].dtype)]


def _treed(name: str) -> Any:
    """A function of tree_util, of a tree with the argument in it twice."""

    def program(L: Any, x: Any) -> Any:
        tree = {"b": (x, None), "a": [x, {"c": x}]}
        call = getattr(L.tree_util, name)
        leaves, structure = L.tree_util.tree_flatten(tree)
        if name in ("tree_map", "tree_map_with_path"):
            return call(lambda *p: p[-1], tree)
        if name == "tree_reduce":
            return call(lambda a, b: [a, b], tree)
        if name == "tree_reduce_associative":
            return call(lambda a, b: b, tree)
        if name == "tree_unflatten":
            return call(structure, leaves)
        if name == "tree_transpose":
            outer = L.tree_util.tree_structure([0, 0])
            inner = L.tree_util.tree_structure((0, 0))
            return call(outer, inner, [(0, 1), (2, 3)])
        if name == "tree_broadcast":
            return call({"a": x}, {"a": x})
        if name == "tree_structure":
            return call(tree).num_leaves
        if name == "tree_flatten":
            return call(tree)[0]
        if name in ("tree_flatten_with_path", "tree_leaves_with_path"):
            found = call(tree)
            found = found[0] if name == "tree_flatten_with_path" else found
            return [(L.tree_util.keystr(path), leaf) for path, leaf in found]
        return call(tree)

    return program


def _tree_all(L: Any, x: Any) -> Any:
    return bool(L.tree_util.tree_all([x, True]))


DERIVATIVES = ("grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian")

PROGRAMS: dict[str, Any] = {
    **{name: _derivative(name) for name in DERIVATIVES},
    "jvp": _jvp, "vjp": _vjp, "linearize": _linearize,
    "linear_transpose": _linear_transpose,
    "vmap": lambda L, x, *axes: L.vmap(lambda v: L.numpy.sin(v) * 2, *axes)(x),
    "jit": lambda L, x, **k: L.jit(_f(L), **k)(x, 3),
    "eval_shape": _eval_shape,
    "make_jaxpr": lambda L, x: L.make_jaxpr(L.numpy.sin)(x) is None,
    "checkpoint": lambda L, x: L.checkpoint(_f(L))(x, 2.3),
    "remat": lambda L, x: L.remat(_f(L))(x, 2),
    "named_call": lambda L, x: L.named_call(_f(L), name="f")(x, 2.3),
    "custom_jvp": _custom_jvp, "custom_vjp": _custom_vjp,
    "custom_gradient": _custom_gradient, "closure_convert": _closure_convert,
    "pure_callback": _pure_callback,
    "ShapeDtypeStruct": lambda L, shape, dtype: str(
        L.ShapeDtypeStruct(shape, dtype).dtype
    ),
}  # fmt: skip

CONTROL_PROGRAMS: dict[str, Any] = {
    "cond": lambda L, p, x, y: L.lax.cond(p, lambda a, b: a, lambda a, b: b, x, y),
    "select_branch": lambda L, p, x: L.lax.cond(p, L.numpy.sin, L.numpy.cos, x),
    "switch": lambda L, i, x, y: L.lax.switch(
        i, [lambda a, b: a * 2, lambda a, b: a + 1], x, y
    ),
    "while_loop": _while,
    "fori_loop": lambda L, x: L.lax.fori_loop(0, 3, lambda i, c: c * 2, x),
    "scan": _scan,
    "while_carry": _while_carry,
    "fori_carry": _fori_carry,
    "scan_carry": _scan_carry,
    "branch": _branch,
    "map": lambda L, x, **k: L.lax.map(lambda v: L.numpy.sin(v), x, **k),
}

TREE_PROGRAMS: dict[str, Any] = {
    **{name: _treed(name) for name in names(TREE)},
    "tree_all": _tree_all,
    "Partial": lambda L, x: L.tree_util.Partial(L.numpy.multiply, x)(2),
    "all_leaves": lambda L, x: [
        L.tree_util.all_leaves([x]), L.tree_util.all_leaves([[x]]),
    ],
}  # fmt: skip


def _ravel(L: Any, x: Any, y: Any) -> Any:
    flat, back = L.flatten_util.ravel_pytree({"a": x, "b": [y]})
    return flat, back(flat)


ROWS = [
    *read("lax", CONTROL, CONTROL_PROGRAMS),
    *read("", TRANSFORMS, PROGRAMS),
    *read("tree_util", TREE, TREE_PROGRAMS),
    *read("flatten_util", "ravel_pytree: any any", {"ravel_pytree": _ravel}),
]
