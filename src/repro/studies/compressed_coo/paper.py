"""What the paper of this study is called."""

STUDY = "compressed_coo"
#: What it measured on.
GPUS = ("V100", "A100")
PAPER = "the 2020 paper (Aliaga et al.)"
REFERENCE = "Aliaga, Anzt, Quintana-Ortí, Tomás, Tsai: Euro-Par 2020 workshops (10.1007/978-3-030-71593-9_7)."
#: The tuning that chooses among solvers: what is the fastest in one need not be the fastest alone.
SOLVER = "bicgstab"
