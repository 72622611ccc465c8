"""Jobs that run beside requests: leases, expiry of feedback windows, publication of states, history."""
