"""SpMV with compound entries: layouts, schedules, variants, tables and figures.

This file defines how the study's papers are cited. Every module of the study depends on it, so it imports nothing.
"""

STUDY_NAME = "compound_spmv"
CITED = "the 2020 paper"
REFERENCE = (
    "Mueller-Roemer, Stork, Fellner: VMV 2019 (10.2312/vmv.20191324), Computer Graphics Forum 39(6) 2020 "
    "(10.1111/cgf.13957)."
)
#: The optional parts of the study, in the space `extended`: matrices with renumbered unknowns, conjugate gradients, and
#: chains of products in which a launch may start before the previous one has ended.
REORDERED_MATRICES = "reordered_matrices"
CONJUGATE_GRADIENTS, DEPENDENT_LAUNCHES = "conjugate_gradients", "dependent_launches"
