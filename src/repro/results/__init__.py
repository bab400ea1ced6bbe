"""Common code of all studies for tables, figures and the report, made from recorded rows and published numbers."""
