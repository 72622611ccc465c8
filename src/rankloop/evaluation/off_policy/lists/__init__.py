"""What a ranker would earn from lists and their clicks, by who examines what: estimators, bounds and doubts."""
