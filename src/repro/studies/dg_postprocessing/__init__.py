"""Post-processing of discontinuous Galerkin fields on unstructured meshes (King 2017, chapters 3 and 4)."""
