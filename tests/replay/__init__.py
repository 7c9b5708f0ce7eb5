"""Programs that are recorded with one version of ftrace, and replayed with another."""
