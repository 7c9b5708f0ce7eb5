"""A picture of a function: one page of HTML with its source, graphs, and kernels.

From the ground up:

    source_lines  The user's lines that a program comes from, and the code around them
    tables        Nodes and texts, each once and by number, as the page has them
    steps         What is walked: the graph as traced, for each device, after each pass,
                  and in kernels
    kernels       What runs: each kernel with its statements, schedule and code
    picture       `viz`: the page, written to a file and shown

`page/` has what the page is made of: HTML, its style, its scripts, and the library that
places the boxes.
"""
