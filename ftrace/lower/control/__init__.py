"""Loops and branches before they become steps of programs.

From the ground up:

    canonical_loop  Stage 0: control flow in the form in which programs run it
    simplify_loops  Stage 0: rewrites of loops and branches as a whole, before their
                    bodies are lowered
"""
