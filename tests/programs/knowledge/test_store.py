"""The graph's database: what a passage says comes and goes with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from programs.knowledge import GraphError, Knowledge
from programs.knowledge.store import GraphStore, beside
from retrieval import Passage
from signatures import Proposition, Triple

QUILL = Passage("p1", "Ada Quill", "Ada Quill was born in Tamsin in 1948.")
NORVALE = Passage("p2", "Norvale (company)", "Norvale was founded by Ada Quill.")
BORN = Triple("Ada Quill", "born in", "Tamsin", "p1", "person", "city")
YEAR = Triple("Ada Quill", "born", "1948", "p1", "person", "year")
FOUNDER = Triple("Norvale (company)", "founder", "Ada Quill", "p2", "company", "person")


def filled(place: str | Path) -> GraphStore:
    store = GraphStore(place, create=True)
    store.sync([QUILL, NORVALE], "first")
    told = Proposition("Ada Quill was born in Tamsin.", ("Ada Quill", "Tamsin"), "p1")
    store.write("lm", {"p1": [BORN, YEAR], "p2": [FOUNDER]}, {"p1": [told]})
    return store


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    return filled(tmp_path / "graph.sqlite")


def check_that_passages_take_their_triples_along(store: GraphStore) -> None:
    changed = Passage("p1", "Ada Quill", "Ada Quill was born in Volmer.")
    synced = store.sync([changed, NORVALE, Passage("p3", "Volmer", "A city.")], "second")
    assert (synced.passages, synced.new, synced.changed, synced.gone) == (3, 1, 1, 0)
    assert list(store.triples()) == [FOUNDER]
    assert list(store.propositions()) == []
    assert store.unread("triples") == ["p1", "p3"]
    assert store.sync([changed], "third").gone == 2
    assert list(store.triples()) == []


def check_that_what_no_database_takes_is_left_out(store: GraphStore) -> None:
    odd = Triple("A\0da", "likes", "\ud800Orla", "p1")
    store.write("given", {"p1": [odd]}, {"p1": [Proposition("A\0da", ("\udfff",), "p1")]})
    (kept,) = store.triples("given")
    assert (kept.subject, kept.object) == ("Ada", "?Orla")


def test_what_no_database_takes_is_left_out(store: GraphStore) -> None:
    check_that_what_no_database_takes_is_left_out(store)


def test_a_changed_or_gone_passage_takes_its_triples_along(store: GraphStore) -> None:
    check_that_passages_take_their_triples_along(store)


@pytest.mark.slow
def test_postgresql_keeps_a_graph_as_a_file_does(postgres: str) -> None:
    store = filled(postgres)
    assert store.edges(["ada quill"]) == [BORN, YEAR, FOUNDER]
    assert store.known(["norvale"]) == {"norvale": "norvale company"}
    knowledge = Knowledge(store)
    assert [e.key for e in knowledge.named_in("When was Ada Quill born?")] == ["ada quill"]
    assert knowledge.coverage["person"].led_on == 1
    check_that_what_no_database_takes_is_left_out(store)
    check_that_passages_take_their_triples_along(store)


def test_what_was_read_again_replaces_what_it_said_before(store: GraphStore) -> None:
    store.write("lm", {"p1": [YEAR]})
    store.write("given", {"p1": [BORN]})
    assert set(store.triples()) == {YEAR, FOUNDER, BORN}
    store.forget("lm", "triples")
    assert list(store.triples()) == [BORN]
    assert store.unread("triples") == ["p1", "p2"]


def test_a_name_is_known_without_its_brackets_where_it_is_the_only_one(store: GraphStore) -> None:
    assert store.known(["norvale", "tamsin", "nobody"]) == {
        "norvale": "norvale company",
        "tamsin": "tamsin",
    }
    store.sync([QUILL, NORVALE, Passage("p3", "Norvale (film)", "A film.")], "second")
    assert "norvale" not in store.known(["norvale"])


def test_a_graph_that_is_not_there_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="hopsmith graph"):
        GraphStore(tmp_path / "none.sqlite")


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough to be read as one")
    with pytest.raises(GraphError, match="not a database"):
        GraphStore(tmp_path / "text")


@pytest.mark.parametrize("url", ["nothing://x", "postgresql+nodriver://x/y"])
def test_a_url_of_no_database_is_refused(url: str) -> None:
    with pytest.raises(GraphError, match="postgresql://user@host"):
        GraphStore(url)


def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        GraphStore("postgresql://ada:secret@127.0.0.1:1/graph")
    assert "secret" not in str(caught.value)


def test_a_pickle_reopens_the_same_graph(store: GraphStore) -> None:
    assert list(pickle.loads(pickle.dumps(store)).triples()) == list(store.triples())
    knowledge = Knowledge(store, stale=["p1"])
    _ = knowledge.paths
    again = pickle.loads(pickle.dumps(knowledge))
    assert again.content_hash == knowledge.content_hash
    assert "paths" not in vars(again)


def test_a_graph_lies_beside_its_index_not_in_it(tmp_path: Path) -> None:
    place = beside(tmp_path / "index")
    assert place is not None
    assert place.parent == tmp_path.resolve()
    assert beside("https://index.example") is None


def test_stale_passages_are_not_walked(store: GraphStore) -> None:
    knowledge = Knowledge(store, stale=["p1"])
    assert knowledge.edges(["ada quill"]) == [FOUNDER]
    assert knowledge.passages(["p1", "p2"]).keys() == {"p2"}
    assert knowledge.content_hash != Knowledge(store).content_hash


def test_the_longest_name_in_a_question_counts(store: GraphStore) -> None:
    found = Knowledge(store).named_in("When was Ada Quill of Norvale born, in 1948?")
    assert [e.key for e in found] == ["ada quill", "norvale company"]


def test_coverage_is_by_type_and_leaves_dates_out(store: GraphStore) -> None:
    coverage = Knowledge(store).coverage
    assert {kind: (c.entities, c.led_on, c.edges) for kind, c in coverage.items()} == {
        "city": (1, 0, 0),
        "company": (1, 1, 1),
        "person": (1, 1, 2),
    }


def test_scope_is_the_titled_passages_then_those_with_edges(store: GraphStore) -> None:
    assert Knowledge(store).about(["ada quill"]) == ["p1", "p2"]
