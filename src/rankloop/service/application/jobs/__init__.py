"""Jobs that run beside requests: leases, publication of states, history."""
