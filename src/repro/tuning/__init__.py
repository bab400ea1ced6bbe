"""Spaces of variants, searching them, and choosing a winner."""
