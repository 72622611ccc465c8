"""Decide which measures can be learned from the grades of the first items, and how fast."""

from rankloop.games.analysis import Advice, Analysis, advise, analyse, analyse_depths
from rankloop.games.game import Game
from rankloop.games.hopeless import Twins, twins

__all__ = ["Advice", "Analysis", "Game", "Twins", "advise", "analyse", "analyse_depths", "twins"]
