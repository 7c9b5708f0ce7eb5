"""Loops and branches before they become steps of programs.

From the ground up:

    canonical_loop  Control flow in the form in which programs run it
    simplify_loops  Rewrites of loops and branches as a whole, before their
                    bodies are lowered
"""
