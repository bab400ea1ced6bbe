"""What the paper prints, file by file."""

from __future__ import annotations

#: Columns of the files in `config/published/spgemm_amg`.
PUBLISHED = {
    "sizes": ("table", "gpu", "problem", "entry", "printed", "abbreviation", "unknowns", "nonzeros"),
    "text": ("table", "gpu", "quantity", "problem", "value"),
}
#: Columns of `config/targets/spgemm_amg.csv`.
TARGETS = ("quantity", "wanted", "what")
