"""Servers that tests run against: each is started on a free port, for one run, in a folder of its own."""
