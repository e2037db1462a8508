"""Errors of this room; each message names the mend."""


class OptimizeError(Exception):
    """A fault of input or set-up that the user can mend."""


class RunError(OptimizeError):
    """A run folder that can't be read, or can't be resumed with these settings."""


class CompareError(OptimizeError):
    """Runs that can't be compared, or a baseline that is none of them."""


class ExportError(OptimizeError):
    """An export that is broken, or does not fit the index or program it is loaded with."""


class TooManyFailures(OptimizeError):
    """The LM endpoint failed so many times in a row that going on makes no sense."""
