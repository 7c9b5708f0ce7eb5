"""What becomes of a function: `explain` says it, and `viz` makes a page of it.

From the ground up:

    regions           A graph as its author wrote it: what one call of a function made
                      is one line
    explain_sharding  What becomes of a function whose arguments are divided over
                      devices, as text
    explain           What runs when a function is called, and how far from the
                      machine's limits it is
    page_data         What a page tells, as data: the user's lines; nodes and texts by
                      number; the graph as traced, for each device, after each pass;
                      each kernel with its statements, schedule and code
    picture           `viz`: the page, written to a file and shown

`page/` has what the page is made of: HTML, its style, its scripts, and the library that
places the boxes.
"""
