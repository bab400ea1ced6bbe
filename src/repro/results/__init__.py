"""Tables, figures and the report, from recorded rows and the papers' own numbers: what all studies make them with."""
