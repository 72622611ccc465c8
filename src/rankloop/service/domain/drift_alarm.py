"""The drift alarm of a ranker: raised when its recent click rate differs from the long-term one by more than chance."""

import logging
import math

from rankloop.service.domain.counters import RECENT_RATE_STEP, Counters

logger = logging.getLogger("rankloop.service")
DRIFT_ALARM_Z_SCORE = 4.0  # above it, a change of the click rate is hardly chance
MIN_VARIANCE = 1e-4  # of a click, where the long-term rate is near 0 or 1


def click_rate_drift(counters: Counters) -> tuple[float, bool]:
    """Return the recent click rate minus the long-term one, in standard errors of the recent one, and the alarm."""
    if not counters.clickable:
        return 0.0, False
    rate = counters.long_term_click_rate
    variance = max(rate * (1 - rate), MIN_VARIANCE) * RECENT_RATE_STEP / (2 - RECENT_RATE_STEP)
    z_score = (counters.recent_click_rate - rate) / math.sqrt(variance)
    return z_score, abs(z_score) > DRIFT_ALARM_Z_SCORE


class DriftAlarms:
    """Logs a warning when the drift alarm of a ranker is raised, and when it ends."""

    def __init__(self) -> None:
        self._raised = set[str]()  # rankers

    def watch(self, ranker: str, counters: Counters) -> None:
        """Look at the counts of a ranker."""
        z_score, alarm = click_rate_drift(counters)
        if alarm and ranker not in self._raised:
            self._raised.add(ranker)
            rates = f"{counters.long_term_click_rate:.3f} to {counters.recent_click_rate:.3f}"
            logger.warning(f"drift alarm of ranker {ranker}: the click rate went from {rates}, z = {z_score:.1f}")
        elif not alarm and ranker in self._raised:
            self._raised.remove(ranker)
            logger.warning(f"drift alarm of ranker {ranker} has ended")
