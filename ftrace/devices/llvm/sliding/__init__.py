"""Convolutions and their gradients: products one of whose operands slides.

columns         channels first: the right operand slides along the columns; plan:
which contractions these are, and their blocks
rows            channels last: the left operand slides along the rows; rows_plan
emitter         what these have in common: units, blocks, tiles
groups          groups of few channels, several in a vector
across          depthwise: lanes are channels wherever these lie
sums            gradients by the filters; pixels: by few filters
padding         taps that see padding alone; phases: every u-th place
"""
