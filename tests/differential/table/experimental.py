"""Rows of `jax.experimental`, of references, dtypes and rules of one's own."""

from functools import partial
from typing import Any

import numpy as np

from tests.differential.rows import names, read

DTYPES = """
canonicalize_dtype itemsize_bits {modes=eager switched}: ['float32','int8','bool',
    'int16','foo','bfloat16','complex64']
result_type {modes=eager switched}: any any
issubdtype {modes=eager}: ['float32','int8','bool','bfloat16'] ['floating','integer',
    'number','inexact','generic','signedinteger']
scalar_type_of {modes=eager}: any
"""

REF = """
get set swap addupdate freeze new_ref: vector place
"""

RULES = """
linear_call zero_from_primal custom_vjp_primal_tree_values: any
"""

CHECKIFY = """
checkify check check_error debug_check {modes=mapped}: float
"""

RNN = """
get_num_params_in_lstm {modes=eager}: [3,1] [2,4] [1,2] [False,True]
"""

SPARSE = """
bcoo_fromdense bcoo_todense bcoo_sort_indices todense: matrix
bcoo_sum_duplicates: matrix nse=[20,100]!
bcoo_update_layout: matrix n_batch=[0,1,2] n_dense=[0,1]
bcoo_extract bcoo_multiply_dense bcoo_multiply_sparse: matrix matrix
bcoo_transpose: matrix permutation=[(1,0),(0,1),(0,0),(0,2,1)]!
bcoo_reduce_sum: matrix axes=[(0,),(1,),(0,1),()]!
bcoo_reshape: plane new_sizes=[(4,3),(12,),(2,6),(5,)]!
bcoo_rev: plane [(0,),(1,),(0,1),(5,)]
bcoo_slice: plane start_indices=[(0,1),(1,0)]! limit_indices=[(2,3),(3,4),(4,4)]!
    strides=[None,(1,2),(2,1)]
bcoo_dynamic_slice: plane [(0,1),(1,0),(5,-1)] [(2,2),(1,3)]
bcoo_gather: plane index
bcoo_concatenate: plane dimension=[0,1]!
bcoo_squeeze: plane dimensions=[(0,),(),(1,)]!
bcoo_broadcast_in_dim: plane shape=[(2,3,4),(1,3,4)]!
    broadcast_dimensions=[(1,2)]!
bcoo_dot_general: plane plane
bcoo_dot_general_sampled: plane plane
bcsr_fromdense bcsr_todense bcsr_sum_duplicates coo_fromdense coo_todense csr_fromdense
    csr_todense {modes=plain}: plane
bcsr_extract bcsr_dot_general {modes=plain}: plane plane
bcsr_concatenate {modes=plain}: plane dimension=[0,1]!
bcsr_broadcast_in_dim {modes=plain}: plane shape=[(2,3,4),(1,3,4)]!
    broadcast_dimensions=[(1,2)]!
bcoo_conv_general_dilated {modes=plain}: vector padding=['SAME','VALID']!
coo_matvec csr_matvec coo_matmat csr_matmat {modes=plain}: plane
sparsify: matrix
grad value_and_grad jacfwd jacrev jacobian {modes=plain}: plane
empty {modes=eager}: [(2,3),(4,)] ['float32','int32']
eye {modes=eager}: [3,2] [None,4]? k=[0,1,-1]
"""

#: An eigenvalue is what all are, a vector has any sign; a solution is as exact as the
#: matrix lets it be.
SPARSE_LINALG = """
lobpcg_standard {modes=plain rough=4096}: floats [1,2]
spsolve {modes=plain rough=64 small=70}: spd column [1e-6]
"""


def _dtype(name: str, L: Any, *args: Any) -> Any:
    module = L.find("dtypes")
    if name == "issubdtype":
        args = (args[0], getattr(L.numpy, args[1]))
    found = getattr(module, name)(*args)
    return getattr(found, "__name__", None) or str(found)


def _ref(name: str, L: Any, x: Any, place: Any) -> Any:
    """What a reference gives and holds after a function was called at a place."""
    module = L.find("ref")
    x = L.numpy.asarray(x)
    ref, at = L.new_ref(L.numpy.array(x)), (L.numpy.asarray(place),)
    if name == "freeze":
        return L.freeze(ref)
    result: Any = None
    if name == "get":
        result = module.get(ref, at)
    elif name != "new_ref":
        result = getattr(module, name)(ref, at, x[0])
    return result, ref[...]


def _linear_call(L: Any, x: Any) -> Any:
    call = L.find("custom_derivatives").linear_call
    return call(lambda r, v: v * r, lambda r, ct: ct * r * 3, 2.0, x)


def _zero_from_primal(L: Any, x: Any) -> Any:
    """The zero of a rule, which does not tell what varies."""
    module = L.find("custom_derivatives")

    @L.custom_jvp
    def f(x: Any) -> Any:
        return L.numpy.sin(x)

    def rule(primals: Any, tangents: Any) -> Any:
        y = f(*primals)
        return y, module.zero_from_primal(y)

    f.defjvp(rule, symbolic_zeros=True)
    return f(x) + x


def _primal_values(L: Any, x: Any) -> Any:
    """A forward rule that is told what varies, and takes the values alone."""
    module = L.find("custom_derivatives")

    @L.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return L.numpy.sin(x) * y

    def forward(*given: Any) -> Any:
        values = module.custom_vjp_primal_tree_values(given)
        return f(*values), values

    def backward(values: Any, ct: Any) -> Any:
        return ct * values[1] * 3, None

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f(x, 2.0)


def _sequential(L: Any, x: Any) -> Any:
    module = L.find("custom_batching")
    return module.sequential_vmap(lambda v: L.numpy.sin(v) * 2)(x)


def _named(L: Any, x: Any) -> Any:
    module = L.find("ad_checkpoint")
    policy = L.checkpoint_policies.save_only_these_names("s")
    return L.checkpoint(
        lambda v: L.numpy.cos(module.checkpoint_name(L.numpy.sin(v), "s")),
        policy=policy,
    )(x)


def _checkified(name: str, L: Any, x: Any) -> Any:
    module = L.find("experimental.checkify")
    asked = name in ("check", "debug_check")

    def f(v: Any) -> Any:
        positive = L.numpy.all(v > 0)
        if asked:
            getattr(module, name)(positive, "negative")
        return L.numpy.log(v)

    errors = module.user_checks if asked else module.float_checks
    error, value = module.checkify(f, errors=errors)(x)
    if name == "check_error":
        module.check_error(error)
    return value


def _odeint(L: Any, y0: Any, rate: Any) -> Any:
    odeint = L.find("experimental.ode").odeint
    times = L.numpy.asarray([0.0, 0.5, 1.0])
    return odeint(lambda y, t, a: -a * y, y0, times, rate)


def _jet(L: Any, x: Any, order: int) -> Any:
    jet = L.find("experimental.jet").jet
    series = [L.numpy.ones_like(x) * (i + 1) for i in range(order)]
    return jet(lambda v: L.numpy.sin(v) * L.numpy.exp(v), (x,), (series,))


def _params(L: Any, *args: Any) -> Any:
    module = L.find("experimental.rnn")
    return module.get_num_params_in_lstm(*args)


def _lstm(L: Any, x: Any) -> Any:
    module = L.find("experimental.rnn")
    sizes = {"input_size": 2, "hidden_size": 3, "num_layers": 1, "bidirectional": False}
    count = module.get_num_params_in_lstm(*sizes.values())
    weights = L.numpy.sin(L.numpy.arange(count, dtype="float32"))
    batch = L.numpy.ones((1, 4, 2)) * L.numpy.sum(x)
    zeros, lengths = L.numpy.zeros((1, 1, 3)), L.numpy.asarray([4])
    made = module.unpack_lstm_weights(weights, **sizes)
    rest = (batch, zeros, zeros, *made, lengths)
    return module.lstm_ref(*rest, dropout=0.0, **sizes)


# Sparse arrays.


def _module(L: Any) -> Any:
    return L.find("experimental.sparse")


def _dense(x: Any) -> Any:
    """A sparse array, or what holds several, as dense ones."""
    if isinstance(x, (tuple, list)):
        return [_dense(y) for y in x]
    return x.todense() if hasattr(x, "todense") else x


def _of_sparse(name: str, L: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of `sparse` of the array, of which all elements are stored."""
    module = _module(L)
    x = L.numpy.asarray(x)
    mat = module.BCOO.fromdense(x, nse=x.size)
    given: list[Any] = list(args)
    if name in ("bcoo_concatenate",):
        return _dense(module.bcoo_concatenate([mat, mat], **kwargs))
    if name == "bcoo_squeeze":
        first = module.BCOO.fromdense(x[:1], nse=x[:1].size)
        return _dense(module.bcoo_squeeze(first, **kwargs))
    if name in ("bcoo_multiply_sparse", "bcoo_dot_general"):
        y = L.numpy.asarray(given[0])
        given = [module.BCOO.fromdense(y, nse=y.size)]
    if name == "bcoo_dot_general":
        kwargs["dimension_numbers"] = (((1,), (1,)), ((), ()))
    if name == "bcoo_gather":
        numbers = L.lax.GatherDimensionNumbers((1,), (0,), (0,))
        return _dense(module.bcoo_gather(
            mat, L.numpy.asarray(given[0]).reshape(-1, 1), numbers, (1, x.shape[1])
        ))  # fmt: skip
    return _dense(getattr(module, name)(mat, *given, **kwargs))


def _fromdense(L: Any, x: Any) -> Any:
    return _module(L).bcoo_fromdense(x, nse=L.numpy.size(x)).todense()


def _sampled(L: Any, x: Any, y: Any) -> Any:
    numbers = (((1,), (1,)), ((), ()))
    places = L.numpy.asarray([[0, 1], [2, 0]])
    return _module(L).bcoo_dot_general_sampled(x, y, places, dimension_numbers=numbers)


def _convolved(L: Any, x: Any, padding: str) -> Any:
    module = _module(L)
    x = L.numpy.asarray(x).reshape(1, 1, -1)
    mat = module.BCOO.fromdense(x, nse=x.size)
    y = module.BCOO.fromdense(x[..., :2], nse=x[..., :2].size)
    found = module.bcoo_conv_general_dilated(
        mat, y, window_strides=(1,), padding=padding
    )
    return found.todense()


def _of_rows(name: str, L: Any, x: Any, *others: Any, **kwargs: Any) -> Any:
    """A function of one of the other formats."""
    module = _module(L)
    kind, _, what = name.partition("_")
    made = getattr(module, kind.upper()).fromdense(x, nse=x.size)
    if what == "fromdense":
        return getattr(module, name)(x, nse=x.size).todense()
    if what == "concatenate":
        return getattr(module, name)([made, made], **kwargs).todense()
    if what == "broadcast_in_dim":
        return getattr(module, name)(made, **kwargs).todense()
    if what == "matvec":
        return getattr(module, name)(made, x[0])
    if what == "matmat":
        return getattr(module, name)(made, x.T)
    if what == "extract":
        return getattr(module, name)(made.indices, made.indptr, others[0])
    if what == "dot_general":
        numbers = (((1,), (1,)), ((), ()))
        return getattr(module, name)(made, others[0], dimension_numbers=numbers)
    if what == "sum_duplicates":
        return getattr(module, name)(made).todense()
    return getattr(module, name)(made)


def _sparsified(L: Any, x: Any) -> Any:
    module = _module(L)
    mat = module.BCOO.fromdense(x, nse=L.numpy.size(x))
    function = module.sparsify(lambda m: (m * 2).T.sum(0) + L.numpy.sin(m).sum())
    return _dense(function(mat))


def _lobpcg(L: Any, x: Any, count: int) -> Any:
    """The largest eigenvalues of a matrix whose diagonal tells them."""
    solve = L.find("experimental.sparse.linalg.lobpcg_standard")
    start = np.sin(np.arange(40.0 * count)).reshape(40, count)
    wide = L.numpy.diag(np.arange(40)) + L.numpy.tanh(L.numpy.sum(x)) * 0.1
    return solve(wide, L.numpy.asarray(start, wide.dtype), 50)[0]


def _spsolve(L: Any, x: Any, y: Any, tol: float) -> Any:
    module = _module(L)
    mat = module.BCSR.fromdense(L.numpy.asarray(x))
    solve = L.find("experimental.sparse.linalg.spsolve")
    return solve(mat.data, mat.indices, mat.indptr, L.numpy.ravel(y), tol)


def _derived(name: str, L: Any, x: Any) -> Any:
    """A derivative with respect to a sparse array, at its places."""
    module = _module(L)
    mat = module.BCOO.fromdense(x, nse=x.size)
    scalar = name in ("grad", "value_and_grad")
    function = (lambda m: (m @ x[0]).sum()) if scalar else (lambda m: m @ x[0])
    found = getattr(module, name)(function)(mat)
    return (
        [getattr(y, "data", y) for y in found]
        if isinstance(found, tuple)
        else (found.data)
    )


_FORMATS = ("bcsr_", "coo_", "csr_")


def _sparse_programs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names(SPARSE):
        of_rows = name.startswith(_FORMATS)
        found[name] = partial(_of_rows if of_rows else _of_sparse, name)
    for name in ("grad", "value_and_grad", "jacfwd", "jacrev", "jacobian"):
        found[name] = partial(_derived, name)
    made: dict[str, Any] = {
        "bcoo_fromdense": _fromdense, "bcoo_dot_general_sampled": _sampled,
        "sparsify": _sparsified, "bcoo_conv_general_dilated": _convolved,
        "empty": lambda L, shape, dtype: _dense(_module(L).empty(shape, dtype=dtype)),
        "eye": lambda L, n, *m, **k: _dense(_module(L).eye(n, *m, **k)),
    }  # fmt: skip
    return found | made


ROWS = [
    *read("dtypes", DTYPES, {n: partial(_dtype, n) for n in names(DTYPES)}),
    *read("ref", REF, {n: partial(_ref, n) for n in names(REF)}),
    *read("custom_derivatives", RULES, {
        "linear_call": _linear_call, "zero_from_primal": _zero_from_primal,
        "custom_vjp_primal_tree_values": _primal_values,
    }),
    *read("custom_batching", "sequential_vmap: any", {"sequential_vmap": _sequential}),
    *read("ad_checkpoint", "checkpoint_name: inexact", {"checkpoint_name": _named}),
    *read("experimental.checkify", CHECKIFY, {
        n: partial(_checkified, n) for n in names(CHECKIFY)
    }),
    *read("experimental.ode", "odeint {rough=64 small=9}: floats positive", {
        "odeint": _odeint,
    }),
    *read("experimental.sparse.linalg", SPARSE_LINALG, {
        "lobpcg_standard": _lobpcg, "spsolve": _spsolve,
    }),
    *read("experimental.jet", "jet {rough=8}: floats [1,2,3]", {"jet": _jet}),
    *read("experimental.rnn", RNN, {"get_num_params_in_lstm": _params}),
    *read("experimental.rnn", "lstm_ref {rough=8}: unit", {"lstm_ref": _lstm}),
    *read("experimental.sparse", SPARSE, _sparse_programs()),
]  # fmt: skip
