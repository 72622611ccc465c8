"""The loop in twenty lines: a stream of queries, simulated users who grade the first five results, and a learner.

python examples/01_learning_curve.py
"""

from rankloop import build, parse_measure, play

stream = build("web_search", "stream")
users = build("top_k(depth=5)", "feedback")
learner = build("topk_gradient(surrogate='squared')", "learner")
measure = parse_measure("nDCG@10")

window: list[float] = []
for round in play(learner, stream, users, horizon=5000, seed=0):
    window.append(measure(round.decision.ranking, round.relevance))
    if (round.t + 1) % 500 == 0:
        quality = sum(window) / len(window)
        print(f"rounds {round.t - 498:5d}–{round.t + 1:5d}  nDCG@10 {quality:.3f}  {'█' * int(60 * quality)}")
        window.clear()
