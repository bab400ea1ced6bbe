"""A campaign: what it will do, the steps that it takes, what is missing from it."""
