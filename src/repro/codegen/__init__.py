"""Turns kernel templates into compiled modules: language dialects, hardware limits, rendering and compiling."""
