from ftrace.trace.rewrite import Spec, Pat
GRAPH_SPEC = Spec("graph", (Pat(),))
