"""The dependent click model: after a click at a position, users read on with a probability of that position."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import MIN_PROBABILITY, ClickModel, Evidence, ModelName, Prior, shares
from rankloop.click_models.cascade import count_examined
from rankloop.click_models.page_log import ClickArrays


@dataclass(frozen=True, kw_only=True, eq=False)
class DependentClickModel(ClickModel):
    """Users read from the top and click what attracts them; after a click at position p they stop with stop[p].

    Reference: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search.
    """

    name: ClassVar[ModelName] = "dcm"
    numbers: ClassVar[tuple[str, ...]] = ("stop",)

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, max_rounds: int) -> Self:
        """In closed form, as published: rows down to the last click are examined (all, where there is none).

        attraction = clicks / examinations; stop[p] = pages whose last click is at p / pages with a click at p. Who went
        on and clicked nothing more counts as stopped too, so low positions have too high numbers.
        """
        counts = count_examined(log, first=False)
        clicks = np.bincount(log.position, log.clicked, log.n_positions)
        finals = np.bincount(log.position[counts.last_clicks], minlength=log.n_positions)
        return cls(
            attraction=shares(counts.clicks, counts.examined, prior),
            examination=np.ones((log.n_positions, 1)),
            stop=np.clip((finals + 0.5) / (clicks + 1.0), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY),
            evidence=Evidence(counts.clicks, counts.examined, prior),
        )
