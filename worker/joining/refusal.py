"""The errors of `tempolet join` and `tempolet leave`; each message says what, where and what to do now."""


class JoinRefused(Exception):
    """This machine cannot be joined, or taken out, as asked; what was not done yet is not done."""


class WrongRequest(JoinRefused):
    """The command line asks for something that cannot be meant; nothing was looked at."""


class ClusterNotProven(JoinRefused):
    """The server did not prove that it is the cluster of the token and of the CA hashes."""


class NotReadyYet(JoinRefused):
    """The machine is joined, but its Node did not become Ready in time; the message has what each service says."""
