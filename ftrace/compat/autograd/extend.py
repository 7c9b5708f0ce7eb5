"""What one extends autograd with: functions with derivatives of one's own, spaces."""

from ftrace.compat.autograd.core import (
    Box as Box,
    JVPNode as JVPNode,
    VJPNode as VJPNode,
    VSpace as VSpace,
    def_linear as def_linear,
    defjvp as defjvp,
    defjvp_argnum as defjvp_argnum,
    defjvp_argnums as defjvp_argnums,
    defvjp as defvjp,
    defvjp_argnum as defvjp_argnum,
    defvjp_argnums as defvjp_argnums,
    notrace_primitive as notrace_primitive,
    primitive as primitive,
    register_notrace as register_notrace,
    vspace as vspace,
)
