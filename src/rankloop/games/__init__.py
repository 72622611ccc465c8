"""What can be learned at all from the grades of the first items: games, verdicts, certificates, advice."""

from rankloop.games.analysis import Analysis, analyse, analyse_depths
from rankloop.games.certificate_check import objection
from rankloop.games.game import Game
from rankloop.games.hopeless import Twins, twins
from rankloop.games.learnability import Advice, advise

__all__ = ["Advice", "Analysis", "Game", "Twins", "advise", "analyse", "analyse_depths", "objection"]
__all__ += ["twins"]
