"""The study of products of sparse matrices by binned rows, and of multigrid that is set up with them."""
