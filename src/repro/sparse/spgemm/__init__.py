"""Products of sparse matrices on a device, whose rows are dealt to bins (King 2017, chapter 6)."""
