"""Errors of this room: faults that a user can mend, and signals that must pass through code that
swallows ``Exception`` (ReAct's tools, SIMBA, ``dspy.Evaluate``)."""


class ProgramError(Exception):
    """A fault of input or set-up that the user can mend; the message says how."""


class BudgetError(ProgramError, ValueError):
    """A budget that can't be: an unknown bound or a value out of range."""


class StateError(ProgramError, ValueError):
    """A saved state that does not fit the program it is loaded into."""


class QuestionError(ProgramError, ValueError):
    """A question that can't be asked: empty, or longer than the model's window."""


class OutOfBudget(BaseException):
    """No LM call is left for this step, or the deadline has passed."""


class Cancelled(BaseException):
    """Whoever asked has hung up: end at the next LM call, without an answer."""


class WriterFailed(ProgramError):
    """The final answer could not be written and no hop has one: the question failed."""
