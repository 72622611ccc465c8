"""HTTP around the service: middleware, routes, bodies in and out, errors, metrics, the page (`static/`)."""
