"""Rows of ftrace.lax, but for what takes functions (transforms.py)."""

from typing import Any

from tests.differential.rows import read

ELEMENTWISE = """
abs neg sign square conj {elementwise}: any
real imag {elementwise}: inexact
sqrt rsqrt cbrt exp exp2 expm1 {elementwise}: inexact
log log1p reciprocal sin cos tan sinh cosh tanh logistic {elementwise}: inexact
asin acos atan asinh acosh atanh {elementwise}: inexact
ceil floor round is_finite {elementwise}: float
erf erfc erf_inv {elementwise}: unit
lgamma digamma {elementwise rough=4}: positive
bessel_i0e bessel_i1e {elementwise rough=4}: float
igamma igammac igamma_grad_a random_gamma_grad {elementwise rough=64}: positive alike
polygamma zeta {elementwise rough=64}: positive alike
betainc regularized_incomplete_beta {elementwise rough=64}: positive alike share
mulhi {elementwise modes=mapped}: int like
reduce_precision {elementwise}: float [5,8,11,0] [10,7,3,-1]
bitwise_not population_count clz {elementwise modes=mapped}: int
stop_gradient optimization_barrier zeros_like_array: any
integer_pow {elementwise rough=2}: any [0,1,2,3,-1,-2,7]
add sub mul div rem max min {elementwise}: any like
pow {elementwise rough=4}: any like
atan2 {elementwise}: any like
nextafter {elementwise modes=mapped}: any like
eq ne lt le gt ge {elementwise modes=forward}: any like
bitwise_and bitwise_or bitwise_xor {elementwise modes=mapped}: int like
shift_left shift_right_arithmetic shift_right_logical {elementwise modes=mapped}: shift
    like
complex {elementwise}: floats like
clamp {elementwise}: any like like
select {elementwise}: mask same like
select_n {elementwise}: mask same like
convert_element_type: any dtype
bitcast_convert_type: array ['int32','float32','uint16','float16','int8']
"""

MOVEMENT = """
broadcast: any [(2,),(),(3,0),-1]
broadcast_in_dim: array [(2,3),(3,),(2,2,3),()] [(0,),(1,),(0,1),(),(1,2)]
broadcast_to_rank: any [0,1,3,4]
broadcasted_iota {modes=plain}: ['float32','int32','uint8','bool'] [(2,3),(4,),()]
    [0,1,-1]
iota {modes=plain}: ['float32','int32','bfloat16','bool'] [0,3,-1]
full {modes=forward}: shape any dtype=dtype
full_like: any any dtype=dtype
empty {modes=plain}: shape dtype
broadcast_shapes {modes=eager}: [(2,3),(1,),()] [(3,),(2,1),(4,)]
collapse: array [0,1,-1] [1,2,None]?
concatenate: array [0,1,-1,5]
stack: array axis=[0,-1,5]
expand_dims: any [(0,),(0,1),(-1,),(5,)]
squeeze: any [(0,),(),(-1,),(0,0)]
reshape: array [(-1,),(6,),(2,3),(3,2),()] dimensions=[(0,),(1,0),None]
rev: array [(0,),(),(-1,),(0,1),(0,0)]
transpose: array [(1,0),(0,),(),(0,1,2),(2,0,1),(-1,0)]
tile: array [(2,),(1,2),(2,1,2),(0,)]
split: array [(1,2),(3,),(1,),(0,3)] axis=[0,-1]
unstack: array axis=[0,-1,5]
slice: array [(0,),(1,),(0,0),(0,1)] [(2,),(3,),(2,3),(0,0)] [(1,),(2,),(1,2),None]?
slice_in_dim: array [0,1,-1,None] [1,2,None] stride=[1,2] axis=[0,-1]
index_in_dim: array [0,-1,5] axis=[0,-1] keepdims=flag
index_take: array vectorindex [(0,),(-1,)]
dynamic_index_in_dim: array place axis=[0,-1] keepdims=flag
dynamic_slice_in_dim: array place [0,1,2,9] axis=[0,-1]
dynamic_slice: vector place [(1,),(2,),(9,)]
dynamic_update_slice_in_dim dynamic_update_index_in_dim: array any place [0,-1]
dynamic_update_slice: vector any place
pad: array real [((1,2,0),),((0,0,1),),((-1,1,0),),((0,0,0),(1,1,1))]
"""

REDUCTIONS = """
reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor: array
    [(0,),(1,),(0,1),(),(-1,),(0,0)]
reduce: array [(0,),(1,),(0,1),()]
reduce_window: floats [(1,),(2,),(2,2),(1,3)]
cumsum cumprod cummax cummin: array axis=[0,1,-1,5] reverse=flag
cumlogsumexp: floats axis=[0,1,-1] reverse=flag
argmax argmin {modes=forward}: array [0,1,-1,5] ['int32','int8','float32']
sort: array dimension=[0,-1,5]
sort_key_val: array array dimension=[0,-1]
top_k: array [0,1,2,9] axis=[0,-1]
approx_max_k approx_min_k: floats [0,1,2]
associative_scan: array reverse=flag axis=[0,-1]
"""

PRODUCTS = """
dot: array like
batch_matmul: square like
dot_general: array like
    [(((0,),(0,)),((),())),(((1,),(1,)),((0,),(0,))),(((),()),((),()))]
conv conv_transpose: image kernel [(1,1),(2,2)] ['SAME','VALID','FULL']
conv_general_dilated: image kernel [(1,1),(2,1)] [((0,0),(1,1)),'SAME']
    lhs_dilation=[(1,2)] rhs_dilation=[(2,1)]
conv_with_general_padding: image kernel [(1,1)] [((0,0),(1,1))] [(1,2),None]
    [(2,1),None]
conv_general_dilated_patches: image [(2,2),(1,3)] [(1,1),(2,1)] ['SAME','VALID']
conv_dimension_numbers {modes=eager}: [(1,2,5,5)] [(3,2,2,2)]
    [None,('NCHW','OIHW','NCHW')]
conv_general_permutations {modes=eager}: [('NCHW','OIHW','NHWC')]
padtype_to_pads {modes=eager}: [(5,6),(0,3)] [(2,2)] [(1,1),(2,2)]
    ['SAME','VALID','FOO']
fft: floats ['fft','ifft','rfft','irfft','foo'] [(3,),(5,),()]
gather: array index
scatter scatter_add scatter_sub scatter_mul scatter_max scatter_min {small=70}:
    array index positive
scatter_apply: array index
"""


def _gather(L: Any, x: Any, indices: Any) -> Any:
    x = L.numpy.asarray(x)
    numbers = L.lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, x.ndim)),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
    )
    places = L.numpy.asarray(indices).reshape(-1, 1)
    return L.lax.gather(x, places, numbers, (1, *x.shape[1:]))


def _scatter(name: str) -> Any:
    def program(L: Any, x: Any, indices: Any, *updates: Any) -> Any:
        x = L.numpy.asarray(x)
        places = L.numpy.asarray(indices).reshape(-1, 1)
        numbers = L.lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(1, x.ndim)),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
        )
        shape = (places.shape[0], *x.shape[1:])
        if name == "scatter_apply":
            function = L.numpy.sin
            return L.lax.scatter_apply(x, places, function, numbers, update_shape=shape)
        update = L.numpy.broadcast_to(L.numpy.asarray(updates[0], x.dtype), shape)
        return getattr(L.lax, name)(x, places, update, numbers)

    return program


def _zero(x: Any) -> Any:
    return x.dtype.type(0)


PROGRAMS: dict[str, Any] = {
    "concatenate": lambda L, x, axis: L.lax.concatenate([x, x], axis),
    "stack": lambda L, x, **k: L.lax.stack([x, x], **k),
    "reduce": lambda L, x, axes: L.lax.reduce(x, _zero(x), L.lax.add, axes),
    "reduce_window": lambda L, x, window: L.lax.reduce_window(
        x, 0.0, L.lax.add, window, window, "SAME"
    ),
    "associative_scan": lambda L, x, **k: L.lax.associative_scan(L.numpy.add, x, **k),
    "dynamic_slice": lambda L, x, i, sizes: L.lax.dynamic_slice(x, (i,), sizes),
    "dynamic_update_slice": lambda L, x, y, i: L.lax.dynamic_update_slice(
        x, L.numpy.asarray(y, x.dtype).reshape(-1)[:1], (i,)
    ),
    "index_take": lambda L, x, i, axes: L.lax.index_take(x, (i,), axes),
    "fft": lambda L, x, kind, lengths: L.lax.fft(x, kind, lengths),
    "gather": _gather,
    **{
        f"scatter{kind}": _scatter(f"scatter{kind}")
        for kind in ("", "_add", "_sub", "_mul", "_max", "_min", "_apply")
    },
}

ROWS = [
    row
    for text in (ELEMENTWISE, MOVEMENT, REDUCTIONS, PRODUCTS)
    for row in read("lax", text, PROGRAMS)
]
