"""The contract of robust updates can fail: without the wrapper, one bad row ruins a numeric ranker."""

import pytest

from rankloop.contracts import ContractViolation, robust_contracts
from rankloop.contracts.cases import cases_of
from rankloop.core.registry import lookup


@pytest.mark.parametrize("kind", ["newton_pairs", "click_regression"])
def test_one_bad_row_ruins_a_ranker_that_is_not_protected(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in cases_of(lookup(kind, "learner")) if case.name.endswith("-0-plain"))
    robust_contracts.check_one_bad_row.check(case)
    monkeypatch.setattr(robust_contracts, "with_robust", lambda learner, problem: learner)
    with pytest.raises(ContractViolation, match="a bad list"):
        robust_contracts.check_one_bad_row.check(case)
