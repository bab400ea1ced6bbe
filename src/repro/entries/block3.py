"""Entry type `block3`: dense 3×3 blocks, stored row by row, which multiply vectors of 3 numbers."""

from repro.entries import Entry, register

BLOCK3 = register(
    Entry(
        name="block3",
        members=tuple(f"m{i}{j}" for i in range(3) for j in range(3)),
        vector_members=("x", "y", "z"),
        mac=tuple(
            " ".join(f"c.{row} += a.m{i}{j} * b.{column};" for j, column in enumerate("xyz"))
            for i, row in enumerate("xyz")
        ),
        expand=lambda values: values.reshape(-1, 3, 3),
    )
)
