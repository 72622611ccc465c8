"""From names to arrays: candidates by id, features by name and feedback by id, as `Query` and `Feedback`."""

from rankloop.adapter.candidates import (
    INVALID_ID,
    MAX_ID_LENGTH,
    MAX_STEP,
    Candidates,
    Id,
    are_valid_ids,
    candidates_of,
    is_valid_id,
    named_row,
    plain_ids,
    raw_candidates,
)
from rankloop.adapter.feedback import KINDS, feedback_of, named_values, one_kind
from rankloop.adapter.requests import NO_CONTEXT, Adapter, QueryRequest, RawValues

__all__ = ["INVALID_ID", "KINDS", "MAX_ID_LENGTH", "MAX_STEP", "NO_CONTEXT", "Adapter", "Candidates", "Id"]
__all__ += ["QueryRequest", "RawValues", "are_valid_ids", "candidates_of", "feedback_of", "is_valid_id"]
__all__ += ["named_row", "named_values", "one_kind", "plain_ids", "raw_candidates"]
