"""Runs, verifies and times kernels, measures the streaming floor, and stores one row for each measurement."""
