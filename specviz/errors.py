"""The one exception that is written for people."""


class UserError(Exception):
    """Something the person can mend. The message is one or two plain sentences: what was wrong, what to do.

    The page shows it; the command line prints it and exits with code 2. Nothing else is caught for display.
    """
