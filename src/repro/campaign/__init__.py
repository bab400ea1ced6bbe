"""Campaigns: planning, running and checking all steps from problems to artifacts."""
