"""Search of spaces of variants, final timing, and the choice of winners."""
