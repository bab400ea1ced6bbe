"""From a layout and schedules to a compiled module: dialects, targets, rendering, compiling."""
