"""SpMV with compound entries: layouts, schedules, variants, tables and figures.

This file has what the papers of the study are called. Everything of the study depends on it, so it imports nothing.
"""

STUDY_NAME = "compound_spmv"
CITED = "the 2020 paper"
REFERENCE = (
    "Mueller-Roemer, Stork, Fellner: VMV 2019 (10.2312/vmv.20191324), Computer Graphics Forum 39(6) 2020 "
    "(10.1111/cgf.13957)."
)
#: The part of the study that conjugate gradients are; they are timed in the space `extended`.
CONJUGATE_GRADIENTS = "conjugate_gradients"
