from ftrace.trace.rewrite import PatternMatcher
SIMPLIFY = PatternMatcher([])
SPLIT = PatternMatcher([])
