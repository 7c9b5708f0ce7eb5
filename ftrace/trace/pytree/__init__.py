"""Containers of arrays: their leaves, their structure, and paths in them.

From the ground up:

    keypath          Where a leaf stands in a pytree: a path is a tuple of keys, from
                     the root down
    tree             Pytrees: nested containers of leaves, on optree
    structure_cache  Layouts: the containers of one structure, taken apart and put
                     together quickly
"""
