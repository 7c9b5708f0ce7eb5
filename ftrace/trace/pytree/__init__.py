"""Containers of arrays: their leaves, their structure, and paths in them.

From the ground up:

    tree             Pytrees: nested containers of leaves, on optree, and paths in them
    treedef          Structures as users hold them: JAX's `PyTreeDef`
    structure_cache  Layouts: the containers of one structure, taken apart and put
                     together quickly
"""
