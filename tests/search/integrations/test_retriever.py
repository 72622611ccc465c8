"""The retriever answers under the names that frameworks call, and teaches."""

from pathlib import Path
from types import SimpleNamespace

from rankloop.search.integrations.retriever import Retriever
from tests.coroutines import run_coroutine
from tests.search.boxes import box_over


def test_every_name_finds_the_same_and_use_is_learned(tmp_path: Path) -> None:
    with box_over(tmp_path) as box:
        retriever = Retriever(box, n=2)
        ids = [document.id for document in retriever.invoke("boat")]
        for documents in (
            run_coroutine(retriever.ainvoke("boat", {"configuration": 1})),
            retriever.retrieve(SimpleNamespace(query_str="boat")),
            retriever.run("boat", top_k=2)["documents"],
        ):
            assert sorted(document.id for document in documents) == sorted(ids)
        assert documents[0].page_content == documents[0].content == documents[0].text
        assert len(retriever.run("boat", top_k=1)["documents"]) == 1
        retriever.used(documents[:1])
        assert box.predict("boat").state == 1
