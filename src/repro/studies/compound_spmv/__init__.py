"""SpMV with compound entries: layouts, schedules, variants, tables and figures."""
