"""Rows of what libraries read and write programs with: `core`, `interpreters`."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

from tests.differential.rows import names, read

CORE = """
core.eval_jaxpr extend.core.jaxpr_as_fun extend.core.check_jaxpr
    extend.core.new_jaxpr_eqn {modes=mapped}: inexact
core.ensure_compile_time_eval core.eval_context {modes=plain}: any
extend.core.gensym {modes=eager}: array
core.max_dim core.min_dim {modes=eager}: [3,0] [3,5]
extend.core.subjaxprs extend.core.jaxprs_in_params {modes=eager}: floats
extend.core.concrete_or_error {modes=plain}: any
extend.core.valid_jaxtype {modes=eager}: nested
extend.core.mapped_aval extend.core.unmapped_aval {modes=eager}: array [0,1,None,2]
extend.core.primal_dtype_to_tangent_dtype {modes=eager}: any
extend.core.get_opaque_trace_state extend.core.find_top_trace
    extend.core.unsafe_am_i_under_a_jit_DO_NOT_USE
    extend.core.unsafe_am_i_under_a_vmap_DO_NOT_USE {modes=eager}: array
    ['top','jit','vmap','grad']
"""

API_UTIL = """
argnums_partial {modes=plain}: any [0,(0,),1,(0,1),-1,5]
debug_info {modes=eager}: any [(),(1,)]
donation_vector {modes=eager}: [(),(0,),(0,2),(1,)]
flatten_axes {modes=eager}: [0,None,(0,1),((0,1),2),(0,1,2)]
flatten_fun flatten_fun_nokwargs: any
rebase_donate_argnums {modes=eager}: [(),(0,),(0,1),(0,2)] [(),(1,),(0,)]
shaped_abstractify {modes=eager}: nested
"""

LINEAR_UTIL = """
merge_linear_aux {modes=eager}: [0,1,2]
transformation transformation2 transformation_with_aux transformation_with_aux2
    wrap_init: any
"""

RANDOM = """
random_seed seed_with_impl {switched modes=plain}: [0,42,-1]
    ['threefry','rbg','unsafe_rbg']
threefry_2x32 {switched modes=plain}: [(0,0),(1,2)] [3,4,(2,3)]
"""

BACKEND = """
backends get_backend get_default_device {modes=eager}: [0]?
"""

AD = """
add_jaxvals add_tangents: floats
defbilinear: inexact inexact
defjvp defjvp2 deflinear deflinear2 get_primitive_transpose: inexact
instantiate_zeros zeros_like_aval {modes=eager}: floats
is_undefined_primal {modes=eager}: any
"""

BATCHING = """
bdim_at_front: array [0,1,None,-1]
broadcast: array [3,0] [0,1]
defbroadcasting defreducer defvectorized: floats
"""

LOWERING = """
interpreters.mlir.lower_fun interpreters.mlir.register_lowering
    interpreters.xla.apply_primitive: floats
interpreters.partial_eval.dce_jaxpr {modes=eager}: inexact [(True,True),(True,False),
    (False,True),(False,False)]
interpreters.partial_eval.trace_to_jaxpr_dynamic {modes=plain}: inexact
interpreters.partial_eval.trace_to_jaxpr_nounits {modes=eager}: inexact
"""


def _aval(L: Any, x: Any) -> Any:
    return L.typeof(L.numpy.asarray(x))


def _type(aval: Any) -> Any:
    return aval.shape, str(aval.dtype), aval.weak_type


# Programs as data.


def _jaxpr(L: Any, x: Any) -> Any:
    return L.make_jaxpr(lambda v: (L.numpy.sin(v) * 2, v + v))(x)


def _evaluated(name: str, L: Any, x: Any) -> Any:
    """A program, read and carried out in one of the ways."""
    closed = _jaxpr(L, x)
    if name == "eval_jaxpr":
        return L.find("core.eval_jaxpr")(closed.jaxpr, closed.consts, x)
    core = L.find("extend.core")
    if name == "jaxpr_as_fun":
        return core.jaxpr_as_fun(closed)(x)
    if name == "check_jaxpr":
        return core.check_jaxpr(closed.jaxpr), x
    eqns = [
        core.new_jaxpr_eqn(e.invars, e.outvars, e.primitive, e.params, e.effects)
        for e in closed.jaxpr.eqns
    ]
    whole = closed.jaxpr.replace(eqns=eqns)
    return L.find("core.eval_jaxpr")(whole, closed.consts, x)


def _nested(name: str, L: Any, x: Any) -> Any:
    """The programs in a loop, and in a call in that."""

    def step(carry: Any, _: Any) -> Any:
        return L.jit(L.numpy.sin)(carry), None

    jaxpr = L.make_jaxpr(lambda v: L.lax.scan(step, v, None, length=2)[0])(x).jaxpr
    core = L.find("extend.core")
    [loop] = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    found = (
        core.subjaxprs(jaxpr)
        if name == "subjaxprs"
        else core.jaxprs_in_params(loop.params)
    )
    return [len(part.outvars) for part in found]


def _eagerly(L: Any, x: Any) -> Any:
    def f(v: Any) -> Any:
        with L.find("core.ensure_compile_time_eval")():
            return L.numpy.sin(v) if L.numpy.arange(3).sum() > 2 else v

    return L.jit(f)(x)


def _outside(L: Any, x: Any) -> Any:
    def f(v: Any) -> Any:
        with L.find("core.eval_context")():
            known = L.numpy.arange(3).sum()
        return v * int(known)

    return L.jit(f)(x)


def _mapped(name: str, L: Any, x: Any, axis: Any) -> Any:
    call, there = L.find(f"extend.core.{name}"), axis is not None and axis < x.ndim
    return _type(call(x.shape[axis] if there else 3, axis, _aval(L, x)))


def _tangent_dtype(L: Any, x: Any) -> str:
    call = L.find("extend.core.primal_dtype_to_tangent_dtype")
    return str(call(L.numpy.asarray(x).dtype))


def _state(name: str, L: Any, x: Any, where: str) -> Any:
    """What is said of the state of tracing, at the top and in a transform."""
    call, seen = L.find(f"extend.core.{name}"), []
    outside = call() if name == "get_opaque_trace_state" else None

    def f(v: Any) -> Any:
        if name == "find_top_trace":
            call([v])
        else:
            seen.append(call() == outside if outside is not None else call())
        return (v * 1.0).sum()

    made = {"jit": L.jit, "vmap": L.vmap, "grad": L.grad, "top": lambda f: f}[where](f)
    made(L.numpy.asarray(x, "float32"))
    return seen


# Functions of flat arguments.


def _lu(L: Any, f: Any, *args: Any) -> Any:
    info = L.find("api_util.debug_info")("f", f, args, {})
    return L.find("extend.linear_util").wrap_init(f, debug_info=info)


def _partial(L: Any, x: Any, dynamic: Any) -> Any:
    fun = _lu(L, lambda a, b: a * b, x, 2.0)
    made, rest = L.find("api_util.argnums_partial")(fun, dynamic, (x, 2.0))
    return made.call_wrapped(*rest), len(rest)


def _debug_info(L: Any, x: Any, static: Any) -> Any:
    def function(a: Any, b: Any, *, c: Any) -> Any:
        return a

    call = L.find("api_util.debug_info")
    info = call("jit", function, (x, 2), {"c": 3}, static_argnums=static)
    return info.traced_for, info.func_name, list(info.arg_names)


def _donated(L: Any, numbers: Any) -> Any:
    tree = L.tree.structure(((1, [2, 3], 4), {"a": 5}))
    return L.find("api_util.donation_vector")(numbers, (), tree)


def _flat_axes(L: Any, axes: Any) -> Any:
    tree = L.tree.structure(((1, 2), 3))
    return list(L.find("api_util.flatten_axes")("axes", tree, axes))


def _flat_fun(name: str, L: Any, x: Any) -> Any:
    named = name == "flatten_fun"

    def f(tree: Any, **options: Any) -> Any:
        return {"a": tree["x"] * options.get("by", 2), "b": [tree["y"]]}

    args = ({"x": x, "y": 3.0},)
    whole: Any = (args, {"by": 4}) if named else args
    leaves, structure = L.tree.flatten(whole)
    flat, out = L.find(f"api_util.{name}")(_lu(L, f, *args), structure)
    return flat.call_wrapped(*leaves), str(out()).partition("(")[2]


def _abstract(L: Any, x: Any) -> Any:
    return _type(L.find("api_util.shaped_abstractify")(x))


def _aux(L: Any, which: int) -> Any:
    """Two functions' auxiliary outputs, of which one is filled, or both."""
    util = L.find("extend.linear_util")

    @util.transformation_with_aux2
    def told(f: Any, store: Any, *args: Any) -> Any:
        store.store("told")
        return f(*args)

    def f(v: Any) -> Any:
        return v

    (one, first), (two, second) = told(_lu(L, f, 1)), told(_lu(L, f, 1))
    for number, fun in enumerate((one, two)):
        if which in (number, 2):
            fun.call_wrapped(1)
    return util.merge_linear_aux(first, second)


def _transformed(name: str, L: Any, x: Any) -> Any:
    util, aux = L.find("extend.linear_util"), name.endswith(("aux", "aux2"))
    fun = _lu(L, L.numpy.sin, x)
    if name == "wrap_init":
        return fun.call_wrapped(x)
    if name in ("transformation", "transformation_with_aux"):

        @getattr(util, name)
        def doubled(*args: Any) -> Any:
            found = yield args, {}
            yield (found * 2, "told") if aux else found * 2

    else:

        @getattr(util, name)
        def doubled(f: Any, *args: Any) -> Any:
            if not aux:
                return f(*args) * 2
            store, *rest = args
            store.store("told")
            return f(*rest) * 2

    made = doubled(fun)
    if not aux:
        return made.call_wrapped(x)
    made, told = made
    return made.call_wrapped(x), told()


# Generators and devices.


def _seeded(name: str, L: Any, seed: int, impl: str) -> Any:
    module = L.find("extend.random")
    made = getattr(module, f"{impl}_prng_impl")
    given = (seed, made) if name == "random_seed" else (made, seed)
    return L.random.key_data(getattr(module, name)(*given))


def _threefry(L: Any, pair: Any, size: Any) -> Any:
    key = L.numpy.asarray(pair, "uint32")
    counts = L.numpy.ones(size, "uint32") * 7
    return L.find("extend.random").threefry_2x32(key, counts)


def _backend(name: str, L: Any, *_: Any) -> Any:
    found = L.find(f"extend.backend.{name}")()
    return sorted(found)[:1] if name == "backends" else found.platform


# Primitives of one's own.

_numbers = count()


def _primitive(L: Any, f: Any, shapes: Any = None) -> Any:
    """A primitive that computes a function of arrays."""
    made = L.find("extend.core").Primitive(f"own{next(_numbers)}")
    mlir = L.find("interpreters.mlir")
    made.def_impl(f)
    made.def_abstract_eval(shapes or (lambda a, *_, **k: a))
    mlir.register_lowering(made, mlir.lower_fun(f, multiple_results=False))
    return made


def _with_rules(name: str, L: Any, *args: Any) -> Any:
    """A primitive whose rules a function of `ad` has made; it is called under jvp."""
    ad = L.find("interpreters.ad")
    args = tuple(L.numpy.asarray(x) for x in args)
    if name == "defbilinear":
        own = _primitive(L, lambda a, b: a * b)
        left = lambda ct, a, b: ct * b  # noqa: E731
        right = lambda ct, a, b: ct * a  # noqa: E731
        ad.defbilinear(own, left, right)
        return L.vjp(lambda a: own.bind(a, args[0]), args[0])[1](args[0])
    if name in ("defjvp", "defjvp2"):
        own = _primitive(L, lambda a: L.numpy.sin(a))
        rule = (lambda t, a: t * 3) if name == "defjvp" else (lambda t, out, a: t * out)
        getattr(ad, name)(own, rule)
        return L.jvp(own.bind, args, args)
    own = _primitive(L, lambda a: a * 2)
    if name == "deflinear":
        ad.deflinear(own, lambda ct: [ct * 2])
    else:
        ad.deflinear2(own, lambda ct, a: [ct * 2])
    if name == "get_primitive_transpose":
        return ad.get_primitive_transpose(own)(args[0], args[0])
    return L.vjp(own.bind, *args)[1](*args)


def _zeros(name: str, L: Any, x: Any) -> Any:
    ad, aval = L.find("interpreters.ad"), _aval(L, x)
    if name == "zeros_like_aval":
        return ad.zeros_like_aval(aval)
    return ad.instantiate_zeros(ad.Zero(aval)), ad.instantiate_zeros(x)


def _added(name: str, L: Any, x: Any) -> Any:
    ad = L.find("interpreters.ad")
    found = getattr(ad, name)(x, x)
    if name == "add_jaxvals":
        return found
    zero = ad.Zero(_aval(L, x))
    return found, ad.add_tangents(zero, x), ad.add_tangents(x, zero)


def _undefined(L: Any, x: Any) -> Any:
    ad = L.find("interpreters.ad")
    whole = ad.UndefinedPrimal(_aval(L, x))
    return [ad.is_undefined_primal(v) for v in (x, whole, None)]


def _in_lanes(name: str, L: Any, x: Any) -> Any:
    """A primitive whose rule for vmap a function of `batching` has made."""
    batching, x = L.find("interpreters.batching"), L.numpy.asarray(x)[None]
    if name == "defreducer":
        own = _primitive(L, lambda a, *, axes: L.numpy.sum(a, axes))
        batching.defreducer(own)
        return L.vmap(lambda v: own.bind(v, axes=()))(x)
    own = _primitive(L, lambda *args: sum(args) * 2)
    getattr(batching, name)(own)
    if name == "defvectorized":
        return L.vmap(own.bind)(x)
    return L.vmap(lambda a: own.bind(a, a))(x)


def _front(L: Any, x: Any, axis: Any) -> Any:
    return L.find("interpreters.batching").bdim_at_front(L.numpy.asarray(x), axis, 2)


def _broadcast(L: Any, x: Any, size: int, axis: int) -> Any:
    return L.find("interpreters.batching").broadcast(x, size, axis, None)


# Programs, lowered and taken apart.


def _lowered(L: Any, x: Any) -> Any:
    own = _primitive(L, lambda a: a * 2 + a)
    L.find("interpreters.ad").defjvp(own, lambda t, a: t * 3)
    batching = L.find("interpreters.batching")
    batching.defvectorized(own)
    return L.jit(own.bind)(x)


def _applied(L: Any, x: Any) -> Any:
    sin = L.find("extend.core.primitives").sin_p
    return L.find("interpreters.xla").apply_primitive(sin, x, accuracy=None)


def _used(L: Any, x: Any, wanted: Any) -> Any:
    jaxpr = L.make_jaxpr(lambda a, b: (L.numpy.sin(a), b * 2))(x, x).jaxpr
    left, used = L.find("interpreters.partial_eval").dce_jaxpr(jaxpr, list(wanted))
    return [e.primitive.name for e in left.eqns], list(used), len(left.outvars)


def _dynamic(L: Any, x: Any) -> Any:
    fun = _lu(L, lambda v: [L.numpy.sin(v) * 2], x)
    pe = L.find("interpreters.partial_eval")
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(fun, [_aval(L, x)])
    return [_type(a) for a in avals], L.find("core.eval_jaxpr")(jaxpr, consts, x)


def _nounits(L: Any, x: Any) -> Any:
    fun = _lu(L, lambda a, b: [L.numpy.sin(a), b * 2], x, x)
    pe = L.find("interpreters.partial_eval")
    known, open_ = pe.PartialVal.known(L.numpy.asarray(x)), _aval(L, x)
    unknown = pe.PartialVal.unknown(open_)
    jaxpr, out, _ = pe.trace_to_jaxpr_nounits(fun, [known, unknown])
    return len(jaxpr.outvars), [p.is_known() for p in out], out[0].get_known()


_CORE: dict[str, Any] = {
    **{name: partial(_evaluated, name.rpartition(".")[2]) for name in (
        "core.eval_jaxpr", "extend.core.jaxpr_as_fun", "extend.core.check_jaxpr",
        "extend.core.new_jaxpr_eqn",
    )},
    "extend.core.gensym": lambda L, x: _type(
        L.find("extend.core").gensym()(_aval(L, x)).aval
    ),
    "core.ensure_compile_time_eval": _eagerly, "core.eval_context": _outside,
    **{f"extend.core.{n}": partial(_nested, n) for n in (
        "subjaxprs", "jaxprs_in_params",
    )},
    "extend.core.concrete_or_error": lambda L, x: (
        L.find("extend.core.concrete_or_error")(None, x, "here")
    ),
    **{f"extend.core.{n}": partial(_mapped, n) for n in (
        "mapped_aval", "unmapped_aval",
    )},
    "extend.core.primal_dtype_to_tangent_dtype": _tangent_dtype,
    **{f"extend.core.{n}": partial(_state, n) for n in (
        "get_opaque_trace_state", "find_top_trace",
        "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    )},
}  # fmt: skip
_API_UTIL: dict[str, Any] = {
    "argnums_partial": _partial, "debug_info": _debug_info, "donation_vector": _donated,
    "flatten_axes": _flat_axes, "shaped_abstractify": _abstract,
    **{n: partial(_flat_fun, n) for n in ("flatten_fun", "flatten_fun_nokwargs")},
}  # fmt: skip
_AD: dict[str, Any] = {
    **{name: partial(_with_rules, name) for name in names(AD)},
    **{n: partial(_zeros, n) for n in ("instantiate_zeros", "zeros_like_aval")},
    **{n: partial(_added, n) for n in ("add_jaxvals", "add_tangents")},
    "is_undefined_primal": _undefined,
}  # fmt: skip
_LOWERING: dict[str, Any] = {
    "interpreters.mlir.lower_fun": _lowered,
    "interpreters.mlir.register_lowering": _lowered,
    "interpreters.xla.apply_primitive": _applied,
    "interpreters.partial_eval.dce_jaxpr": _used,
    "interpreters.partial_eval.trace_to_jaxpr_dynamic": _dynamic,
    "interpreters.partial_eval.trace_to_jaxpr_nounits": _nounits,
}

ROWS = [
    *read("", CORE, _CORE),
    *read("api_util", API_UTIL, _API_UTIL),
    *read("extend.linear_util", LINEAR_UTIL, {
        name: partial(_transformed, name) for name in names(LINEAR_UTIL)
    } | {"merge_linear_aux": _aux}),
    *read("extend.random", RANDOM, {
        "threefry_2x32": _threefry,
        **{n: partial(_seeded, n) for n in ("random_seed", "seed_with_impl")},
    }),
    *read("extend.backend", BACKEND, {n: partial(_backend, n) for n in names(BACKEND)}),
    *read("interpreters.ad", AD, _AD),
    *read("interpreters.batching", BATCHING, {
        **{name: partial(_in_lanes, name) for name in names(BATCHING)},
        "bdim_at_front": _front, "broadcast": _broadcast,
    }),
    *read("", LOWERING, _LOWERING),
]  # fmt: skip
