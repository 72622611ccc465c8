"""The same server and parser without a ranker: a dot product and a sort. What `make load` compares with."""

from __future__ import annotations

import sys

import msgspec
import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

from rankloop.service.request_bodies import FeedbackBody, RankBody

app = FastAPI()
WEIGHTS = np.linspace(-1.0, 1.0, 20)
decode_rank = msgspec.json.Decoder(RankBody).decode
decode_feedback = msgspec.json.Decoder(FeedbackBody).decode


@app.post("/rankers/{name}/rank")
async def rank(name: str, request: Request) -> Response:
    body = decode_rank(await request.body())
    scores = np.array([item.features for item in body.items]) @ WEIGHTS
    ranking = [body.items[i].id for i in np.argsort(-scores, kind="stable")]
    answer = {"impression": "none", "ranking": ranking, "state": 0, "log_propensity": None}
    return Response(msgspec.json.encode(answer), media_type="application/json")


@app.post("/rankers/{name}/feedback")
async def feedback(name: str, request: Request) -> Response:
    body = decode_feedback(await request.body())
    return Response(msgspec.json.encode({"impression": body.impression}), media_type="application/json")


@app.put("/rankers/{name}")
@app.get("/readyz")
@app.get("/healthz")
async def fine(name: str = "") -> dict[str, str]:
    return {}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
