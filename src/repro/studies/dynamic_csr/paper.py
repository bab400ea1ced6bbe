"""What the paper of this study is called, and what it prescribes."""

STUDY = "dynamic_csr"
PAPER = "King 2017, chapter 5"
REFERENCE = (
    "King: Reducing Irregularities in Control Flow and Memory Access on Graphics Processing Unit Architectures, "
    "dissertation, University of Utah 2017, chapter 5."
)
#: Products after each batch in its iterative test.
PRODUCTS = 5
