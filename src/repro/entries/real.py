"""Entry type `real`: plain real numbers."""

from repro.entries import Entry, register

REAL = register(
    Entry(
        name="real",
        members=("v",),
        vector_members=("v",),
        mac=("c.v += a.v * b.v;",),
        expand=lambda values: values.reshape(-1, 1, 1),
    )
)
