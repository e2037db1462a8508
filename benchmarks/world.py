"""A synthetic world: invented entities of ten types with typed relations and dates, drawn from a
seed. Facts are exact by construction, and names are invented, so that no model has read them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

TYPES = (
    "person",
    "company",
    "product",
    "university",
    "city",
    "country",
    "prize",
    "film",
    "river",
    "museum",
)


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed relation; one value a subject, so that every sub-question has one answer."""

    name: str
    subject: str
    object: str
    """A type, or ``year``."""
    question: str
    """Asks for the object; ``{s}`` is the subject."""
    noun: str
    """Names the object by its subject: "the founder of {s}"."""


RELATIONS: tuple[Relation, ...] = (
    Relation("born_in", "person", "city", "In which city was {s} born?", "the birthplace of {s}"),
    Relation("born", "person", "year", "In which year was {s} born?", "the birth year of {s}"),
    Relation(
        "studied_at",
        "person",
        "university",
        "At which university did {s} study?",
        "the university that {s} attended",
    ),
    Relation("won", "person", "prize", "Which prize did {s} win?", "the prize won by {s}"),
    Relation("founder", "company", "person", "Who founded {s}?", "the founder of {s}"),
    Relation("chief", "company", "person", "Who runs {s}?", "the chief executive of {s}"),
    Relation(
        "based_in",
        "company",
        "city",
        "In which city is {s} based?",
        "the city where {s} is based",
    ),
    Relation(
        "founded", "company", "year", "In which year was {s} founded?", "the founding year of {s}"
    ),
    Relation("maker", "product", "company", "Which company makes {s}?", "the maker of {s}"),
    Relation("designer", "product", "person", "Who designed {s}?", "the designer of {s}"),
    Relation(
        "released",
        "product",
        "year",
        "In which year was {s} released?",
        "the release year of {s}",
    ),
    Relation("campus", "university", "city", "In which city is {s}?", "the city of {s}"),
    Relation(
        "opened", "university", "year", "In which year did {s} open?", "the opening year of {s}"
    ),
    Relation("rector", "university", "person", "Who is the rector of {s}?", "the rector of {s}"),
    Relation("country", "city", "country", "In which country is {s}?", "the country of {s}"),
    Relation(
        "river", "city", "river", "Which river flows through {s}?", "the river that crosses {s}"
    ),
    Relation("mayor", "city", "person", "Who is the mayor of {s}?", "the mayor of {s}"),
    Relation(
        "capital", "country", "city", "Which city is the capital of {s}?", "the capital of {s}"
    ),
    Relation(
        "president", "country", "person", "Who is the president of {s}?", "the president of {s}"
    ),
    Relation("host", "prize", "city", "In which city is {s} awarded?", "the host city of {s}"),
    Relation("sponsor", "prize", "company", "Which company sponsors {s}?", "the sponsor of {s}"),
    Relation("director", "film", "person", "Who directed {s}?", "the director of {s}"),
    Relation("studio", "film", "company", "Which company produced {s}?", "the producer of {s}"),
    Relation(
        "premiere", "film", "year", "In which year did {s} premiere?", "the premiere year of {s}"
    ),
    Relation(
        "source",
        "river",
        "country",
        "In which country does {s} rise?",
        "the country where {s} rises",
    ),
    Relation("museum_city", "museum", "city", "In which city is {s}?", "the home city of {s}"),
    Relation("curator", "museum", "person", "Who is the curator of {s}?", "the curator of {s}"),
    Relation(
        "museum_opened",
        "museum",
        "year",
        "In which year was {s} inaugurated?",
        "the inauguration year of {s}",
    ),
)

BY_SUBJECT: dict[str, tuple[Relation, ...]] = {
    kind: tuple(r for r in RELATIONS if r.subject == kind) for kind in TYPES
}
BY_NAME = {r.name: r for r in RELATIONS}


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple; ``object`` is an entity's name or a year's digits."""

    subject: str
    relation: str
    object: str


@dataclass
class World:
    """Entities by type, and one fact for each (subject, relation)."""

    entities: dict[str, list[str]]
    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def look(self, subject: str, relation: str) -> str:
        """The object of a fact. Raises ``KeyError`` when there is none."""
        return self.facts[subject, relation]

    def of(self, subject: str) -> list[Fact]:
        """All facts about a subject."""
        relations = BY_SUBJECT[self.types[subject]]
        return [Fact(subject, r.name, self.facts[subject, r.name]) for r in relations]

    def implied(self, subject: str, relation: str) -> str | None:
        """The other entity whose passage tells this fact as well: a capital's country says so."""
        if relation == "country":
            country = self.look(subject, relation)
            return country if self.look(country, "capital") == subject else None
        return None

    def walk(self, start: str, relations: Sequence[str]) -> list[str]:
        """The objects met when following relations from ``start``."""
        path, at = [], start
        for relation in relations:
            at = self.look(at, relation)
            path.append(at)
        return path


_SHARE = {
    "person": 0.28,
    "company": 0.14,
    "product": 0.12,
    "university": 0.08,
    "city": 0.10,
    "country": 0.05,
    "prize": 0.06,
    "film": 0.10,
    "river": 0.03,
    "museum": 0.04,
}

_ONSETS = [
    "b",
    "br",
    "c",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "h",
    "j",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "qu",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "y",
    "z",
    "th",
]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "io", "ou"]
_CODAS = ["", "", "l", "n", "r", "s", "th", "m", "nd", "rk", "x", "ll"]


class Names:
    """Invented names, each given once; some share a word with others on purpose."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.given: set[str] = set()
        self.family: list[str] = []

    def word(self, syllables: int | None = None) -> str:
        """A pronounceable word with a capital."""
        rng = self.rng
        n = syllables or rng.choice((2, 2, 3))
        made = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(n))
        return (made + rng.choice(_CODAS)).capitalize()

    def new(self, kind: str) -> str:
        """A name for an entity of a type, unlike any given before."""
        while True:
            name = self._draw(kind)
            if name.casefold() not in self.given:
                self.given.add(name.casefold())
                return name

    def _draw(self, kind: str) -> str:
        rng = self.rng
        shared = self.family and rng.random() < 0.3
        root = rng.choice(self.family) if shared else self.word()
        if not shared:
            self.family.append(root)
        if kind == "person":
            return f"{self.word(2)} {root}"
        tails = {
            "company": ("Systems", "Works", "Industries", "Labs", "Group", "Motors", "Foods"),
            "product": ("One", "Pro", "Mini", "X2", "Engine", "Lamp", "Drive"),
            "university": ("University", "Institute", "College", "Polytechnic"),
            "prize": ("Prize", "Medal", "Award"),
            "river": ("River",),
            "museum": ("Museum", "Gallery", "Collection"),
        }
        if kind in tails:
            return f"{root} {rng.choice(tails[kind])}"
        if kind == "film":
            first = rng.choice(("The Last", "Beyond", "A Winter in", "Return to", "Shadows of"))
            return f"{first} {root}"
        if kind == "country":
            return root + rng.choice(("ia", "land", "stan", "mark"))
        return root + rng.choice(("ville", "ton", "burg", "port", "", ""))


def build_world(size: int, seed: int | str) -> World:
    """A world of exactly ``size`` entities, at least two of each type (so at least 20)."""
    rng = random.Random(f"world-{seed}")
    counts = {kind: max(2, int(size * share)) for kind, share in _SHARE.items()}
    while sum(counts.values()) > size:
        largest = max(counts, key=lambda kind: counts[kind])
        if counts[largest] == 2:
            raise ValueError(f"a world has at least {2 * len(TYPES)} entities, got {size}")
        counts[largest] -= 1
    counts["person"] += size - sum(counts.values())
    names = Names(rng)
    entities = {kind: [names.new(kind) for _ in range(n)] for kind, n in counts.items()}
    world = World(entities, types={n: k for k, ns in entities.items() for n in ns})
    for kind, members in entities.items():
        for relation in BY_SUBJECT[kind]:
            for subject in members:
                world.facts[subject, relation.name] = _draw_object(rng, world, relation)
    _agree(rng, world)
    return world


def _draw_object(rng: random.Random, world: World, relation: Relation) -> str:
    if relation.object == "year":
        low, high = _YEARS.get(relation.name, (1950, 2023))
        return str(rng.randint(low, high))
    return rng.choice(world.entities[relation.object])


_YEARS = {"born": (1900, 1969), "opened": (1650, 1899), "museum_opened": (1800, 1990)}


def _agree(rng: random.Random, world: World) -> None:
    """Make facts that imply each other agree: capitals lie in their countries, nobody founds,
    designs or directs before growing up, and nothing is made before its maker is there."""
    capitals = rng.sample(world.entities["city"], len(world.entities["country"]))
    for country, capital in zip(world.entities["country"], capitals, strict=True):
        world.facts[country, "capital"] = capital
        world.facts[capital, "country"] = country
    for company in world.entities["company"]:
        born = int(world.look(world.look(company, "founder"), "born"))
        world.facts[company, "founded"] = str(min(2023, born + rng.randint(20, 50)))
    for product in world.entities["product"]:
        founded = int(world.look(world.look(product, "maker"), "founded"))
        born = int(world.look(world.look(product, "designer"), "born"))
        earliest = max(founded, born + 20)
        world.facts[product, "released"] = str(min(2023, earliest + rng.randint(0, 30)))
    for film in world.entities["film"]:
        founded = int(world.look(world.look(film, "studio"), "founded"))
        born = int(world.look(world.look(film, "director"), "born"))
        earliest = max(founded, born + 20)
        world.facts[film, "premiere"] = str(min(2023, earliest + rng.randint(0, 30)))
