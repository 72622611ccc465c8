"""A base class with scikit-learn's conventions: parameters that can be read and set by name."""

import inspect
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest

E = TypeVar("E", bound="Estimator")


class Estimator:
    """The base class of estimators; `fit` validates and learns, and learned attributes end with an underscore."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: E, **parameters: Any) -> E:
        """Change some of the constructor's arguments; raise `InvalidInput` for an unknown name."""
        valid = self.get_params()
        for name, value in parameters.items():
            if name not in valid:
                raise InvalidInput(f"no parameter {name!r}{nearest(name, valid)}")
            setattr(self, name, value)
        return self
