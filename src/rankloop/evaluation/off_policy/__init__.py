"""Off-policy evaluation: what a policy would earn, from a log that another one made."""

from rankloop.aliases import moved_from

__getattr__ = moved_from(__name__, "estimators")
