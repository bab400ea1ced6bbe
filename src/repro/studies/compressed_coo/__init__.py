"""SpMV and BiCGSTAB with compressed coordinates: formats, blockings, variants, tables and figures.

This file defines how the study's paper is cited, and the GPUs on which it measured. Every module of the study depends
on it, so it imports nothing.
"""

STUDY_NAME = "compressed_coo"
#: GPUs on which the paper measured.
GPUS = ("V100", "A100")
CITED = "the 2020 paper (Aliaga et al.)"
REFERENCE = "Aliaga, Anzt, Quintana-Ortí, Tomás, Tsai: Euro-Par 2020 workshops (10.1007/978-3-030-71593-9_7)."
#: The tuning that chooses among solvers: the fastest product in a solver may differ from the fastest product alone.
SOLVER = "bicgstab"
