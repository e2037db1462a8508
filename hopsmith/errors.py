"""Faults that the command line prints as one line; the message names the mend."""


class HopsmithError(Exception):
    """Bad input or set-up: exit code 2."""

    exit_code = 2
    stops_run = True
    """Read by ``programs.faults``: inside a run, no retry of an LM step mends this."""


class RunFailed(HopsmithError):
    """The run itself failed: exit code 1. What it had done is kept."""

    exit_code = 1
