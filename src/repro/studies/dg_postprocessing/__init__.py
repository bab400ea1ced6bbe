"""Filtering of dG fields on unstructured meshes: per point, per element, and ours; and the width of a vector."""
