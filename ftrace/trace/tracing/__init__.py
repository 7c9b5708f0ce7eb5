"""From a run of a user's function to its graph: scopes, tracers, their operations.

From the ground up:

    tracer          Tracers: values whose operations are recorded instead of done; axes
                    with names
    weak_constants  Numbers of Python's in traces: 64 bits until they meet a type
    scopes          Scopes: runs of a user's function whose operations are recorded
    trace           From a function to its graph, and from a graph back to traced values
"""
