"""Rankings that learn while people use them, from the little that they reveal."""

from rankloop.core import registry

registry.load_from(
    [
        f"rankloop.{name}"
        for name in (
            "measures",
            "surrogates",
            "feedback",
            "data",
            "interleaving",
            "learners",
            "learners.wrappers",
            "simulate",
            "games",
            "batch",
            "ads",
        )
    ]
)
