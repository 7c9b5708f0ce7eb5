from ftrace.trace.rewrite import PatternMatcher
MOVEMENT = PatternMatcher([])
