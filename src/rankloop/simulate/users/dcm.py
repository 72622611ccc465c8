"""The dependent click model: after a click, people may go on."""

from rankloop.core.registry import register
from rankloop.simulate.users.click_behaviours import Behaviour, TopDownReader


@register("dcm")
class Dcm(TopDownReader):
    """Examines the items from the top and clicks what attracts; after each click stops with a probability.

    P(click | examined, grade) and P(stop | clicked, grade) are those of the `behaviour` on the scale 0 …
    `max_grade` (1, 2 or 4): "perfect" reads on and clicks by grade, "navigational" looks for one very good item,
    "informational" clicks a lot. The standard people of online learning to rank. Draws three doubles per position.
    References: Guo, Liu and Wang (2009), Efficient Multiple-Click Models in Web Search, with stopping by grade as in
    Hofmann, Whiteson and de Rijke (2011), A Probabilistic Method for Inferring Preferences from Clicks.
    """

    behaviour: Behaviour = "navigational"
    max_grade: int = 4
    shown: int = 10
