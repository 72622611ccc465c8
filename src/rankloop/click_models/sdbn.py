"""The simplified dynamic Bayesian network: users read on until something that they clicked satisfies them."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rankloop.click_models.base import ClickModel, Evidence, ModelName, Prior, estimate_prior, shares
from rankloop.click_models.cascade import count_examined
from rankloop.click_models.page_log import ClickArrays


@dataclass(frozen=True, kw_only=True, eq=False)
class SimplifiedDbnModel(ClickModel):
    """Users read from the top and click what attracts them; after a click they stop with satisfaction[pair].

    Reference: Chapelle and Zhang (2009), A Dynamic Bayesian Network Click Model for Web Search Ranking, section 5.
    """

    name: ClassVar[ModelName] = "sdbn"
    numbers: ClassVar[tuple[str, ...]] = ("satisfaction",)

    @classmethod
    def _fit(cls, log: ClickArrays, prior: Prior, max_rounds: int) -> Self:
        """In closed form, as published: rows down to the last click are examined (all, where there is none).

        attraction = clicks / examinations; satisfaction = times that it was the last click / clicks. Who went on and
        clicked nothing more counts as satisfied too, so it is too high where pages are short; `dbn` has no such bias.
        """
        counts = count_examined(log, first=False)
        finals = np.bincount(log.pair[counts.last_clicks], minlength=log.n_pairs).astype(np.float64)
        return cls(
            attraction=shares(counts.clicks, counts.examined, prior),
            satisfaction=shares(finals, counts.clicks, estimate_prior(finals, counts.clicks)),
            examination=np.ones((log.n_positions, 1)),
            evidence=Evidence(counts.clicks, counts.examined, prior),
        )
