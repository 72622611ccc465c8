"""scikit-learn's conventions without scikit-learn: parameters that can be read and set by name."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from rankloop.core.errors import InvalidInput
from rankloop.core.specs import nearest

E = TypeVar("E", bound="Estimator")


@dataclasses.dataclass(kw_only=True)
class Estimator:
    """The constructor stores, `fit` validates and learns, and what was learned ends with an underscore."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def set_params(self: E, **parameters: Any) -> E:
        """Change parameters by name."""
        for name, value in parameters.items():
            if name not in self.get_params():
                raise InvalidInput(f"no parameter {name!r}{nearest(name, self.get_params())}")
            setattr(self, name, value)
        return self
