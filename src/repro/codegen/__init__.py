"""From a template to a compiled module: dialects, targets, rendering, compiling."""
