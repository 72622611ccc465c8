"""Off-policy evaluation: what a policy would earn, from a log that another one made."""
