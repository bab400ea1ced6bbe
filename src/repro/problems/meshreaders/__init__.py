"""Readers of files of meshes, one module a family of formats: strict, of NumPy alone, and without a word of the path.

Each has `read(path, values)`, which returns points `(p, d)` and blocks of cells, and raises `Flaw`. Why they are ours:
of the libraries that need no graphics stack, meshio refuses or misreads much of what programs write (texture and
relative indices, lists beside those of faces, groups, partitions, pieces) and takes some truncated files for whole
ones; trimesh merges vertices and reads no volumes; Gmsh's package is a large binary that renumbers.
"""
