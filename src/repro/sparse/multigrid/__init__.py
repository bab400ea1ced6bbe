"""Algebraic multigrid by smoothed aggregation (King 2017, chapter 6): its set-up on a device, and its cycle."""
