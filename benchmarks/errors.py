"""Errors of this room. Each message names the mend; the command line prints it as one line."""


class BenchmarkError(ValueError):
    """A benchmark that can't be loaded; the message names file, line and mend."""


class BadRow(Exception):
    """A record of a data set that can't be used, with its reason; loaders count and name it."""
