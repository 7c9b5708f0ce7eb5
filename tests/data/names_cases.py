"""Expressions whose values JAX has been asked for: see record_names.py.

Each is evaluated with `jnp`, `lax`, `nn`, `image`, `jax`, `np` and `A`, which makes
numbers of a shape: by the recorder with JAX's modules, by tests with ours. Where JAX
raises an error, so must we.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("names.npz")


def A(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1."""
    numbers = np.cos(np.arange(np.prod(shape)) * 1.7)
    return numbers.reshape(shape).astype(np.float32)


def outcome(expression: str, names: Mapping[str, Any]) -> np.ndarray | None:
    """The value of an expression; None where it raises an error."""
    try:
        return np.asarray(eval(expression, {"A": A, "np": np, **names}))
    except Exception:
        return None


def recorded() -> dict[str, np.ndarray | None]:
    """What JAX gave, by expression."""
    with np.load(FILE) as file:
        index = json.loads(file["index"].tobytes())
        values = file["values"].tobytes()
    found: dict[str, np.ndarray | None] = {}
    start = 0
    for name, kind in index.items():
        if kind is None:
            found[name] = None
            continue
        dtype, shape = kind
        size = int(np.prod(shape, dtype=np.int64))
        part = np.frombuffer(values, np.dtype(dtype), size, start)
        found[name] = part.reshape(shape)
        start += part.nbytes
    return found


SECTIONS = {
    "lax": """
lax.ragged_dot(A(7,3),A(2,3,4),np.array([3,2]))
lax.ragged_dot(A(7,3),A(2,3,4),np.array([3,4]),preferred_element_type='float32')
lax.ragged_dot_general(A(5,7,3),A(2,5,3,4),np.array([3,4]),lax.RaggedDotDimensionNumbers((((2,),(2,)),((0,),(1,))),[1],[0]))
lax.ragged_dot_general(A(5,7,3),A(2,5,3,4),np.array([[3,4],[0,7],[7,0],[1,1],[2,4]]),lax.RaggedDotDimensionNumbers((((2,),(2,)),((0,),(1,))),[1],[0]))
lax.ragged_dot_general(A(7,3),A(7,4),np.array([3,4]),lax.RaggedDotDimensionNumbers((((0,),(0,)),((),())),[0],[]))
lax.ragged_dot_general(A(2,7,3),A(2,7,4),np.array([[3,4,0],[1,2,3]]),lax.RaggedDotDimensionNumbers((((1,),(1,)),((0,),(0,))),[1],[]))
lax.ragged_dot_general(A(6,7,3),A(6,3,4),np.array([3,3]),lax.RaggedDotDimensionNumbers((((2,),(1,)),((0,),(0,))),[0],[]))
lax.conv_general_dilated_local(A(2,3,6,5),A(4,3*4,5,4),(1,1),'VALID',(2,2))
lax.conv_general_dilated_local(A(2,6,5,3),A(3,3,3*4,4),(2,2),'SAME',(2,2),dimension_numbers=('NHWC','HWIO','NHWC'))
lax.conv_general_dilated_local(A(2,3,6),A(4,6,5),(1,),[(1,0)],(2,),rhs_dilation=(2,))
lax.conv_shape_tuple((2,3,6,5),(4,3,2,2),(2,1),'SAME')
lax.conv_shape_tuple((2,3,6,5),(4,3,2,2),(2,1),[(1,2),(0,0)],2)
lax.conv_general_shape_tuple((2,6,5,3),(2,2,3,4),(2,1),'VALID',('NHWC','HWIO','NHWC'))
lax.conv_transpose_shape_tuple((2,6,5,3),(2,2,3,4),(2,1),'VALID',('NHWC','HWOI','NHWC'))
lax.conv_transpose_shape_tuple((2,6,5,3),(2,2,3,4),(2,1),'SAME',('NHWC','HWOI','NHWC'))
lax.reduce_window_shape_tuple((8,7),(2,3),(2,1),((0,1),(1,1)))
lax.reduce_window_shape_tuple((8,7),(2,3),(2,1),((0,1),(1,1)),(2,1),(1,2))
lax.shape_as_value((2,3))
lax.stage(2.0)
lax.scaled_dot(A(3,4),A(4,5),lhs_scale=A(3,2),rhs_scale=A(2,5))
lax.mulhi(np.int32(2**30),np.int32(-9))
""",
    "ufuncs": """
jnp.add.reduce(np.ones((2,3),'int8'))
jnp.subtract.reduce(jnp.arange(5))
jnp.subtract.accumulate(jnp.arange(5))
jnp.subtract.accumulate(A(3,4),1)
jnp.logical_and.reduce(jnp.arange(5))
jnp.logical_or.reduce(jnp.arange(5))
jnp.logical_xor.reduce(jnp.arange(5))
jnp.logical_xor.reduce(jnp.zeros((0,3)))
jnp.bitwise_and.reduce(jnp.arange(1,6))
jnp.bitwise_or.reduce(jnp.arange(1,6).reshape(1,5),axis=1,keepdims=True)
jnp.bitwise_xor.reduce(jnp.arange(1,7).reshape(2,3),axis=None)
jnp.bitwise_or.reduce(jnp.arange(1,7).reshape(2,3),axis=1,where=np.array([[True,False,True],[False]*3]))
jnp.bitwise_or.reduce(jnp.arange(1,7).reshape(2,3),axis=1,initial=8)
jnp.bitwise_or.accumulate(jnp.arange(1,7).reshape(2,3),axis=1)
jnp.maximum.accumulate(jnp.array([1,3,2]))
jnp.maximum.reduce(A(3,4),1)
jnp.minimum.reduce(A(3,4),axis=None)
jnp.add.accumulate(np.ones((3,),'int8'))
jnp.add.reduce(jnp.ones((3,2)),axis=None,keepdims=True)
jnp.negative.at(jnp.arange(3),jnp.array([1]),inplace=False)
jnp.add.at(jnp.arange(3),jnp.array([1]),2)
jnp.add.at(jnp.arange(3),jnp.array([1,1]),2,inplace=False)
jnp.subtract.at(jnp.arange(3),jnp.array([1,1]),2,inplace=False)
jnp.multiply.at(jnp.arange(3),jnp.array([1,1]),2,inplace=False)
jnp.logaddexp.at(A(4),2,1.5,inplace=False)
jnp.add.reduceat(jnp.arange(8),jnp.array([0,4,1,5,2,6,3,7]))
jnp.add.reduceat(jnp.arange(8.),jnp.array([0,4,6]))
jnp.maximum.reduceat(A(3,8),jnp.array([0,4,6]),axis=1)
jnp.add.reduceat(np.arange(8,dtype='int8'),jnp.array([0,4,6]))
jnp.maximum.reduce(jnp.zeros((0,)))
jnp.add.reduce(jnp.zeros((3,0)),axis=0)
jnp.logaddexp.reduce(jnp.arange(3.))
jnp.logaddexp.reduce(A(3,4),axis=1,keepdims=True)
jnp.logaddexp2.reduce(A(3,4),axis=0)
jnp.logaddexp.accumulate(A(3,4),axis=0)
jnp.maximum.reduce(jnp.arange(3.),where=jnp.array([True,False,False]))
jnp.maximum.reduce(jnp.arange(3.),where=jnp.array([True,False,False]),initial=-1)
jnp.add.outer(jnp.arange(2),jnp.arange(3.))
jnp.subtract.outer(A(2,3),A(2))
jnp.multiply.outer(2.0,A(2))
jnp.stack(jnp.frompyfunc(lambda x,y:(x+y,x-y),2,2)(jnp.arange(3),1))
jnp.frompyfunc(lambda x,y:x*y+1,2,1).reduce(jnp.arange(4))
jnp.frompyfunc(lambda x,y:x*y+1,2,1).reduce(A(3,4),axis=1)
jnp.frompyfunc(lambda x,y:x*y+1,2,1).accumulate(A(3,4),axis=1)
jnp.frompyfunc(lambda x,y:x*y+1,2,1).outer(A(3,4),A(2))
jnp.frompyfunc(lambda x,y:x*y+1,2,1).at(A(4),jnp.array([1,1,2]),A(3),inplace=False)
jnp.frompyfunc(lambda x,y:x*y+1,2,1).reduceat(A(4),jnp.array([1,3]))
jnp.frompyfunc(lambda x,y:x*y+1,2,1).reduce(jnp.zeros(0))
jnp.frompyfunc(lambda x,y:x*y+1,2,1,identity=0).reduce(jnp.zeros(0))
jnp.add.reduce(jnp.ones((2,3)),axis=(0,1))
jnp.frompyfunc(lambda x,y:x*y+1,2,1).nargs
jnp.negative.reduce(jnp.ones(3))
jax.grad(lambda x: jnp.frompyfunc(lambda x,y:x*y+1,2,1).reduce(x))(A(4))
jax.jit(lambda x: jnp.maximum.reduceat(x,jnp.array([0,2])))(A(4))
jax.vmap(jnp.add.reduce)(A(3,4))
""",
    "polynomials": """
jnp.poly(jnp.array([1,2,3]))
jnp.poly(jnp.array([1.,2]))
jnp.poly(jnp.array([[1.,2],[3,4]]))
jnp.poly(jnp.array([1+1j,1-1j]))
jnp.poly(jnp.array([]))
jnp.poly(jnp.array(3.))
jnp.poly(jnp.ones((2,3)))
jnp.sort(jnp.roots(jnp.array([1,-6,11,-6])))
jnp.roots(jnp.array([0,0,1,-3,2,0])).sum()
jnp.roots(jnp.array([0,0,1,-3,2,0]),strip_zeros=False)
jax.jit(lambda x: jnp.roots(x,strip_zeros=False))(jnp.array([1.,2]))
jnp.roots(jnp.array([0.,0]))
jnp.roots(jnp.array([0.,0]),strip_zeros=False)
jnp.roots(jnp.array([3.]))
jnp.roots(jnp.array([]))
jnp.roots(jnp.ones((2,2)))
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,2)
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,full=True)[1]
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,full=True)[2]
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,full=True)[3]
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,full=True)[4]
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,cov=True)[1]
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,cov='unscaled')[1]
jnp.polyfit(jnp.arange(5.),jnp.stack([jnp.arange(5.)**2,jnp.arange(5.)],1),1,cov=True)[1]
jnp.polyfit(jnp.arange(5.),jnp.stack([jnp.arange(5.)**2,jnp.arange(5.)],1),1)
jnp.polyfit(jnp.arange(5.),jnp.arange(5.)**2,1,w=jnp.arange(5.))
jnp.polyfit(jnp.arange(5.),jnp.arange(4.),1)
jnp.polyfit(jnp.arange(5.),jnp.arange(5.),-1)
jnp.polyfit(jnp.arange(0.),jnp.arange(0.),1)
jax.grad(lambda y: jnp.polyfit(jnp.arange(5.),y,2)[0])(jnp.arange(5.)**2)
jnp.fromstring('1 2 3',sep=' ')
jnp.fromstring('1 2 3',dtype=int,sep=' ')
jnp.fromstring('abc',dtype=int,sep='')
""",
    "image": """
image.resize(A(3,4),(0,4),'linear')
image.resize(np.arange(12).reshape(3,4),(6,2),'linear')
image.resize(A(3,4)+1j*A(3,4),(6,2),'cubic')
image.resize(A(3,4),(6,2),'foo')
image.resize(A(3,4),(6,2,3),'linear')
image.scale_and_translate(A(3,4),(6,2),(0,1),jnp.ones(2),jnp.ones(2),'nearest')
image.scale_and_translate(A(3,4),(6,4),(-2,),jnp.ones(1),jnp.ones(1),image.ResizeMethod.LINEAR)
image.scale_and_translate(A(3,4),(3,4),(),jnp.ones(0),jnp.ones(0),'linear')
jax.grad(lambda x: (image.resize(x,(3,3),'cubic')**2).sum())(A(5,4))
jax.vmap(lambda x: image.resize(x,(3,3),'linear'))(A(2,5,4))
jax.jit(lambda x: image.resize(x,(3,3),'linear'))(A(5,4))
""",
    "initializers": """
nn.initializers.orthogonal()(jax.random.PRNGKey(3),(4,3))
nn.initializers.orthogonal(2.0)(jax.random.PRNGKey(3),(3,5))
nn.initializers.orthogonal(column_axis=0)(jax.random.PRNGKey(3),(2,3,4))
nn.initializers.orthogonal()(jax.random.PRNGKey(3),(0,4))
nn.initializers.orthogonal()(jax.random.PRNGKey(3),(4,))
nn.initializers.delta_orthogonal()(jax.random.PRNGKey(3),(3,2,3))
nn.initializers.delta_orthogonal(0.5)(jax.random.PRNGKey(3),(3,4,3,3))
nn.initializers.delta_orthogonal()(jax.random.PRNGKey(3),(3,3,2))
jnp.trim_zeros(jnp.array([[0,0,0],[0,1,0],[0,0,0]]))
jnp.trim_zeros(jnp.array([[0,0,0],[0,1,0],[0,0,0]]),axis=0)
jnp.trim_zeros(jnp.array([0,1,0,2,0]),'f')
""",
}  # fmt: skip

_MOVED = "(image.scale_and_translate(A(5,4),(6,4),(0,),%s,%s,%r)**2).sum()"
_METHODS = (
    "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area",
)  # fmt: skip
_IMAGES = (
    [
        f"image.resize(A(7,5), {shape}, {method!r}, antialias={smooth})"
        for method in _METHODS
        for shape in ((3, 9), (14, 2), (7, 5), (1, 1))
        for smooth in (True, False)
    ]
    + [
        "image.scale_and_translate(A(7,5,2), (8,6,2), (0,1), jnp.array([1.3,0.6]), "
        f"jnp.array([0.4,-1.2]), {method!r}, antialias={smooth})"
        for method in _METHODS
        for smooth in (True, False)
    ]
    + [
        f"jax.grad(lambda v: {_MOVED % ('v', 'jnp.ones(1)*0.3', 'cubic')})(A(2)[:1])",
        f"jax.grad(lambda v: {_MOVED % ('jnp.ones(1)*1.3', 'v', 'area')})(A(2)[:1])",
    ]
)


def expressions(section: str) -> list[str]:
    lines = SECTIONS[section].strip().splitlines()
    return lines + (_IMAGES if section == "image" else [])
