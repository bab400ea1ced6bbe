"""Studies: one module a paper; each joins problems, variants, baselines and artifacts."""
