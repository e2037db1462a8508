"""GraphStore: triples and propositions in a database, each kept by the passage that states it.

An SQLite file beside the index, or PostgreSQL by URL. A passage is known by its id and by a digest
of its title and text: when it changes or goes, what was read from it goes too (``sync``). Triples
that a corpus brought (``given``) and those that an LM read (``lm``) are kept apart, so that either
can be written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from programs.knowledge.errors import GraphError
from programs.knowledge.names import base_key, entity_key, relation_key
from retrieval import Passage, passage_id
from signatures import Proposition, Triple

FORMAT = 1
SUFFIX = ".graph.sqlite"
AT_ONCE = 500
"""Rows written or keys asked for in one statement."""

Kind = Literal["triples", "propositions"]
Source = Literal["given", "lm"]
T = TypeVar("T")

_tables = sa.MetaData()
_meta = sa.Table(
    "hopsmith_graph",
    _tables,
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_passages = sa.Table(
    "hopsmith_passages",
    _tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("digest", sa.String(16), nullable=False),
    sa.Column("key", sa.Text, nullable=False, index=True),
    sa.Column("base", sa.Text, nullable=False, index=True),
)
_readings = sa.Table(
    "hopsmith_readings",
    _tables,
    sa.Column("passage", sa.Text, primary_key=True),
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("source", sa.String(10), primary_key=True),
)
_triples = sa.Table(
    "hopsmith_triples",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("passage", sa.Text, nullable=False, index=True),
    sa.Column("source", sa.String(10), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("subject_type", sa.Text, nullable=False),
    sa.Column("object_type", sa.Text, nullable=False),
    sa.Column("subject_key", sa.Text, nullable=False, index=True),
    sa.Column("object_key", sa.Text, nullable=False, index=True),
    sa.Column("subject_base", sa.Text, nullable=False, index=True),
)
_propositions = sa.Table(
    "hopsmith_propositions",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("passage", sa.Text, nullable=False, index=True),
    sa.Column("source", sa.String(10), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("entities", sa.JSON, nullable=False),
)
_HELD = (_readings, _triples, _propositions)
"""What goes with a passage."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What a ``sync`` found and did."""

    passages: int
    """In the corpus now."""
    new: int
    changed: int
    gone: int


def beside(index: str | Path) -> Path | None:
    """Where an index folder's graph lies: outside of it, since a new build replaces the folder.
    None for an index at a server's address."""
    if "://" in str(index):
        return None
    folder = Path(index).resolve()
    return folder.with_name(folder.name + SUFFIX)


class GraphStore:
    """An open database. Thread-safe; copying returns itself, a pickle keeps how to reopen it."""

    def __init__(self, place: str | Path, *, create: bool = False) -> None:
        """``place`` is a file or a database URL. Raises ``GraphError`` naming the mend."""
        self.place = str(place)
        url, self.name = _url(self.place)
        if not create and url.drivername == "sqlite" and not Path(str(url.database)).is_file():
            raise GraphError(
                f"no graph at {self.name}: hopsmith graph --index DIR makes one of an index, "
                "--graph names another place"
            )
        try:
            self._engine = sa.create_engine(url)
        except ImportError as fault:
            raise GraphError(
                f"{self.name}: {fault}: pip install 'hopsmith[postgres]' brings PostgreSQL's driver"
            ) from None
        with self._connected(write=create) as db:
            if create:
                _tables.create_all(db)
            known = self._known_format(db)
            if known is None and create:
                db.execute(_meta.insert().values(name="format", value=str(FORMAT)))
            elif known != str(FORMAT):
                raise GraphError(
                    f"{self.name} holds no graph of format {FORMAT}: hopsmith graph --index DIR "
                    "makes one"
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphStore:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (GraphStore, (self.place,))

    def _known_format(self, db: Connection) -> str | None:
        if not sa.inspect(db).has_table(_meta.name):
            return None
        value = db.execute(sa.select(_meta.c.value).where(_meta.c.name == "format")).scalar()
        return None if value is None else str(value)

    @contextmanager
    def _connected(self, *, write: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.begin() if write else self._engine.connect() as db:
                yield db
        except SQLAlchemyError as fault:
            said = " ".join(str(getattr(fault, "orig", None) or fault).split())[:200]
            raise GraphError(f"the graph at {self.name} can't be used: {said}") from fault

    # What the graph is

    def note(self, name: str, value: str) -> None:
        """Keep a setting with the graph."""
        with self._connected(write=True) as db:
            db.execute(_meta.delete().where(_meta.c.name == name))
            db.execute(_meta.insert().values(name=name, value=value))

    def noted(self) -> dict[str, str]:
        """All settings."""
        with self._connected() as db:
            return dict(db.execute(sa.select(_meta)).tuples().all())

    def counts(self) -> dict[str, int]:
        """Rows by what they are: ``passages``, ``triples``, ``propositions``."""
        tables = {"passages": _passages, "triples": _triples, "propositions": _propositions}
        with self._connected() as db:
            return {
                name: int(db.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0)
                for name, table in tables.items()
            }

    # Passages

    def digests(self) -> dict[str, str]:
        """The digest of each passage by id."""
        with self._connected() as db:
            return dict(db.execute(sa.select(_passages.c.id, _passages.c.digest)).tuples().all())

    def sync(self, corpus: Iterable[Passage], corpus_hash: str) -> Synced:
        """Take on a corpus: new passages are added, and what was read from changed and gone ones
        is dropped. All of it happens or nothing."""
        before = self.digests()
        seen: set[str] = set()
        new = changed = 0
        with self._connected(write=True) as db:
            for chunk in _chunks(corpus, AT_ONCE):
                rows = [_row(p) for p in chunk]
                seen.update(row["id"] for row in rows)
                other = [r for r in rows if before.get(r["id"], r["digest"]) != r["digest"]]
                fresh = [r for r in rows if r["id"] not in before]
                _drop(db, [row["id"] for row in other])
                if fresh or other:
                    db.execute(_passages.insert(), [*fresh, *other])
                new, changed = new + len(fresh), changed + len(other)
            gone = [known for known in before if known not in seen]
            _drop(db, gone)
        self.note("corpus", corpus_hash)
        return Synced(len(seen), new, changed, len(gone))

    def unread(self, kind: Kind) -> list[str]:
        """Ids of the passages that no LM has read for ``kind`` yet, in order of their ids."""
        read = sa.select(_readings.c.passage).where(
            _readings.c.kind == kind, _readings.c.source == "lm"
        )
        query = sa.select(_passages.c.id).where(_passages.c.id.not_in(read)).order_by("id")
        with self._connected() as db:
            return list(db.execute(query).scalars())

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Passages by id, those that are there."""
        found: dict[str, Passage] = {}
        with self._connected() as db:
            for some in _chunks(dict.fromkeys(ids), AT_ONCE):
                query = sa.select(_passages.c.id, _passages.c.title, _passages.c.text)
                for i, title, text in db.execute(query.where(_passages.c.id.in_(some))).tuples():
                    found[i] = Passage(i, title, text)
        return found

    def titled(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """Ids of the passages by the key of their title, else by their title without brackets
        where that names one passage alone."""
        found: dict[str, list[str]] = {}
        with self._connected() as db:
            for some in _chunks(dict.fromkeys(keys), AT_ONCE):
                for column in (_passages.c.key, _passages.c.base):
                    known: dict[str, list[str]] = {}
                    query = sa.select(column, _passages.c.id).where(column.in_(some)).order_by("id")
                    for key, i in db.execute(query).tuples():
                        known.setdefault(key, []).append(i)
                    for key, ids in known.items():
                        if column is _passages.c.key or len(ids) == 1:
                            found.setdefault(key, ids)
        return found

    # What was read from them

    def write(
        self,
        source: Source,
        triples: Mapping[str, Sequence[Triple]] | None = None,
        propositions: Mapping[str, Sequence[Proposition]] | None = None,
    ) -> None:
        """What was read from some passages, by passage id, in place of what this source had said
        of them before; an empty list counts as read."""
        with self._connected(write=True) as db:
            if triples:
                _replace(db, _triples, "triples", source, triples, _triple_row)
            if propositions:
                _replace(db, _propositions, "propositions", source, propositions, _proposition_row)

    def forget(self, source: Source, kind: Kind) -> None:
        """Drop what a source said."""
        table = _triples if kind == "triples" else _propositions
        with self._connected(write=True) as db:
            db.execute(table.delete().where(table.c.source == source))
            db.execute(
                _readings.delete().where(_readings.c.source == source, _readings.c.kind == kind)
            )

    def edges(self, keys: Sequence[str]) -> list[Triple]:
        """Triples whose subject or object has one of these keys, each fact of a passage once, in
        the order in which they were written."""
        ends = (_triples.c.subject_key, _triples.c.object_key)
        found: dict[int, Triple] = {}
        with self._connected() as db:
            for some in _chunks(dict.fromkeys(keys), AT_ONCE):
                for end in ends:
                    for row in db.execute(_selected().where(end.in_(some))):
                        found[row[0]] = Triple(*row[1:])
        return list(dict.fromkeys(found[number] for number in sorted(found)))

    def triples(self, source: Source | None = None) -> Iterator[Triple]:
        """All of them, or those of one source."""
        query = _selected()
        if source is not None:
            query = query.where(_triples.c.source == source)
        with self._connected() as db:
            for row in db.execution_options(yield_per=AT_ONCE).execute(query):
                yield Triple(*row[1:])

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        """For each of these keys that names something here, the key of what it names: the entity
        of that very name that a passage or an edge of its own is about; else the only one that is
        called so with more words in brackets; else what edges lead to under that name."""
        led_on = (
            (_triples.c.subject_key, _triples.c.subject_base),
            (_passages.c.key, _passages.c.base),
        )
        found: dict[str, str] = {}
        called: dict[str, set[str]] = {}
        reached: set[str] = set()
        with self._connected() as db:
            for some in _chunks(dict.fromkeys(keys), AT_ONCE):
                for key, base in led_on:
                    exact = sa.select(key).where(key.in_(some)).distinct()
                    found.update((k, k) for k in db.execute(exact).scalars())
                    longer = sa.select(base, key).where(base.in_(some)).distinct()
                    for name, k in db.execute(longer).tuples():
                        called.setdefault(name, set()).add(k)
                ends = sa.select(_triples.c.object_key).where(_triples.c.object_key.in_(some))
                reached.update(db.execute(ends.distinct()).scalars())
        for name, names in called.items():
            if name not in found and len(names) == 1:
                (found[name],) = names
        return {**{key: key for key in reached}, **found}

    def propositions(self) -> Iterator[Proposition]:
        """All of them, in the order in which they were written."""
        query = sa.select(
            _propositions.c.text, _propositions.c.entities, _propositions.c.passage
        ).order_by(_propositions.c.number)
        with self._connected() as db:
            for text, entities, passage in db.execution_options(yield_per=AT_ONCE).execute(query):
                yield Proposition(text, tuple(entities), passage)


def _selected() -> sa.Select[Any]:
    c = _triples.c
    return sa.select(
        c.number, c.subject, c.relation, c.object, c.passage, c.subject_type, c.object_type
    ).order_by(c.number)


def _replace(
    db: Connection, table: sa.Table, kind: Kind, source: Source, read: Mapping[str, Any], row: Any
) -> None:
    for some in _chunks(read, AT_ONCE):
        for held in (table, _readings):
            said = held.delete().where(held.c.passage.in_(some), held.c.source == source)
            db.execute(said if held is table else said.where(_readings.c.kind == kind))
        db.execute(
            _readings.insert(), [{"passage": p, "kind": kind, "source": source} for p in some]
        )
        rows = [{**row(item), "passage": p, "source": source} for p in some for item in read[p]]
        if rows:
            db.execute(table.insert(), rows)


def _drop(db: Connection, ids: Sequence[str]) -> None:
    for some in _chunks(ids, AT_ONCE):
        db.execute(_passages.delete().where(_passages.c.id.in_(some)))
        for table in _HELD:
            db.execute(table.delete().where(table.c.passage.in_(some)))


def _row(passage: Passage) -> dict[str, str]:
    return {
        "id": passage.id,
        "title": _storable(passage.title),
        "text": _storable(passage.text),
        "digest": digest(passage),
        "key": entity_key(passage.title or passage.id),
        "base": base_key(passage.title or passage.id),
    }


def digest(passage: Passage) -> str:
    """What a passage says, in 16 hex digits."""
    return passage_id(passage.title, passage.text)


def _triple_row(triple: Triple) -> dict[str, str]:
    subject, found = _storable(triple.subject), _storable(triple.object)
    relation = _storable(triple.relation)
    return {
        "subject": subject,
        "relation": relation_key(relation) or relation,
        "object": found,
        "subject_type": _storable(triple.subject_type),
        "object_type": _storable(triple.object_type),
        "subject_key": entity_key(subject),
        "object_key": entity_key(found),
        "subject_base": base_key(subject),
    }


def _proposition_row(proposition: Proposition) -> dict[str, Any]:
    return {
        "text": _storable(proposition.text),
        "entities": [_storable(name) for name in proposition.entities],
    }


def _storable(text: str) -> str:
    """Without what no database takes: NUL characters and halves of surrogate pairs, which LMs
    write now and then."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _url(place: str) -> tuple[sa.URL, str]:
    """A database URL, and how to name it without its password."""
    if "://" not in place:
        path = Path(place).expanduser().resolve()
        if not path.parent.is_dir():
            raise GraphError(f"--graph {place}: there is no folder {path.parent}")
        return sa.URL.create("sqlite", database=str(path)), place
    try:
        url = sa.make_url(place)
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        raise GraphError(
            "--graph takes a file or a URL such as postgresql://user@host/database"
        ) from None
    except ImportError:
        pass
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    return url, url.render_as_string(hide_password=True)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
