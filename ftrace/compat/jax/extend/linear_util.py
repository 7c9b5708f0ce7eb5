"""`jax.extend.linear_util`: see `ftrace/compat/linear_util.py`."""

from ftrace.compat.linear_util import (
    DebugInfo as DebugInfo,
    Store as Store,
    StoreException as StoreException,
    WrappedFun as WrappedFun,
    cache as cache,
    merge_linear_aux as merge_linear_aux,
    transformation as transformation,
    transformation2 as transformation2,
    transformation_with_aux as transformation_with_aux,
    transformation_with_aux2 as transformation_with_aux2,
    wrap_init as wrap_init,
)
