"""What can be run, verifying it, timing it, the streaming floor, and the store of rows."""
