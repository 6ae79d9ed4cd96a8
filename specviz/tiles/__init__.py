"""A recorded round's real attention under published schedules: captured from the target, executed tile by tile."""
