"""Builders, doubles and checks that tests of several folders share."""
