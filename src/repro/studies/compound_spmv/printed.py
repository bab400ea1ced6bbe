"""What the papers of this study print in all their tables: their GPUs, and their words for the entries."""

from __future__ import annotations

from repro.artifacts.published import Published

ENTRY_WORDS = {"real": "real", "complex": "complex", "quaternion": "quaternion", "block3": "3×3"}


def gpus(published: Published) -> list[str]:
    """Return the papers' GPUs, oldest first."""
    return [device["gpu"] for device in published["devices"]]
