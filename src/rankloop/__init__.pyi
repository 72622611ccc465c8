"""The public names. `__init__.py` reads them here, and imports each when it is first used."""

from rankloop.click_models.fit import fit_users as fit_users
from rankloop.core.errors import Conflict as Conflict
from rankloop.core.errors import IncompatibleFeedback as IncompatibleFeedback
from rankloop.core.errors import InvalidInput as InvalidInput
from rankloop.core.errors import NotFound as NotFound
from rankloop.core.errors import RankloopError as RankloopError
from rankloop.core.errors import UnstableUpdate as UnstableUpdate
from rankloop.core.registry import build as build
from rankloop.core.registry import register as register
from rankloop.core.registry import spec_of as spec_of
from rankloop.core.saved_session import load as load
from rankloop.core.saved_session import save as save
from rankloop.core.session import Session as Session
from rankloop.core.types import Clicks as Clicks
from rankloop.core.types import Decision as Decision
from rankloop.core.types import Preferred as Preferred
from rankloop.core.types import Problem as Problem
from rankloop.core.types import Query as Query
from rankloop.core.types import Relevances as Relevances
from rankloop.core.types import Reward as Reward
from rankloop.evaluation.log_evaluation import Evaluation as Evaluation
from rankloop.evaluation.log_evaluation import evaluate as evaluate
from rankloop.experiments.rehearsal.answer import rehearse as rehearse
from rankloop.features.schema import Schema as Schema
from rankloop.impression import Impression as Impression
from rankloop.logs.choice_log import ChoiceLog as ChoiceLog
from rankloop.logs.list_log import ListLog as ListLog
from rankloop.logs.reader import read_log as read_log
from rankloop.measures.base import parse_measure as parse_measure
from rankloop.ranker import Ranker as Ranker
from rankloop.simulate.play import Round as Round
from rankloop.simulate.play import play as play
from rankloop.training.clicks.train import train_clicks as train_clicks
from rankloop.training.policy import train_policy as train_policy
from rankloop.training.train import train as train

__version__: str
