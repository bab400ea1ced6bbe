"""Filtering of discontinuous Galerkin fields on unstructured meshes by products of B-splines (SIAC)."""
