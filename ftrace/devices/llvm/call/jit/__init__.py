"""Calls of jitted functions: from the arguments to the results.

From the ground up:

    build_results    What a native call returns: Arrays, and the containers that hold
                     them
    match_arguments  Arguments in native code: is everything as expected, and where is
                     the memory?
    entry            A call in native code, from its beginning to its end
"""
