"""SpMV and BiCGSTAB with compressed coordinates: formats, blockings, variants, tables and figures."""
