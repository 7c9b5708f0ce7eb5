"""Tracing: users' functions become graphs, which derivatives and batching rewrite.

From the ground up:

    backend              What stands above and is used from below: it runs graphs as
                         programs of a device
    arrays/              Concrete values: arrays, and the memory that they lie in
    pytree/              Containers of arrays: their leaves, their structure, and paths
                         in them
    symbolic             Sizes that are not known while a function is traced:
                         polynomials of dimensions
    avals                What is known of a value before it exists: its shape, dtype and
                         weakness
    graph                The graph: immutable, interned nodes
    python_limits        What Python limits: how deep calls stand in each other, and
                         when it seeks cycles
    primitives/          The primitives, by family. Each file is one family and one idea
    autodiff             Derivatives: two walks over a graph
    graph_map            One walk over a graph in which some nodes become others: what
                         many passes are
    batching             Batching: a walk over a graph that gives every node one more
                         leading axis
    rewrite              The one engine for rewrites: named rules, patterns, a walk to
                         the fixed point
    tiering              When the next tier of a call pays: thresholds that are not one
                         operation's
    evaluate             NumPy evaluation of a graph, node by node: the reference, and
                         eager operations
    tracing/             From a run of a user's function to its graph: scopes, tracers,
                         their operations
    references           References: cells that are written in place, and functions that
                         write them
    flatten_arguments    The border to user functions: arguments and results as flat
                         lists of values
    eager/               Calls outside of traces: done at once by NumPy, and remembered
    bind                 Operations on values: recorded where one of them is traced,
                         else done at once
    effects              Effects: what the world notices, in the order of the program
    body                 Bodies: the closed graphs that loops, branches and calls hold
    control/             Control flow as nodes: branches and loops that hold bodies
    linalg_compositions  Operations of linear algebra that are others, put together
    calls/               Calls: functions as nodes, with what differentiation and
                         batching do to them
"""
