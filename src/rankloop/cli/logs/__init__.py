"""Commands on logs: what `train --log` and `evaluate --log` do with each kind of them."""
