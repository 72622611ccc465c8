"""scikit-learn's conventions without scikit-learn: parameters that can be read and set by name."""

import inspect
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest

E = TypeVar("E", bound="Estimator")


class Estimator:
    """The constructor stores, `fit` validates and learns, and what was learned ends with an underscore."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: E, **parameters: Any) -> E:
        """Change some of the constructor's arguments."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, known)}")
            setattr(self, name, value)
        return self
