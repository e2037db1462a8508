"""Prose: passages of 30 to 80 words that state every fact about an entity, in several wordings."""

from __future__ import annotations

import random

from benchmarks.world import World
from retrieval import Passage, passage_id

WORDS = (30, 80)

SENTENCES: dict[str, tuple[str, ...]] = {
    "born_in": ("{s} was born in {o}.", "{s} is a native of {o}.", "{s} comes from {o}."),
    "born": ("The year of birth was {o}.", "{s} was born in {o}.", "Birth records say {o}."),
    "studied_at": (
        "{s} studied at {o}.",
        "After school {s} enrolled at {o}.",
        "{s} holds a degree from {o}.",
    ),
    "won": (
        "{s} won the {o}.",
        "The {o} went to {s}.",
        "For a lifetime of work {s} received the {o}.",
    ),
    "founder": (
        "{s} was founded by {o}.",
        "{o} founded {s}.",
        "The company goes back to {o}, its founder.",
    ),
    "chief": ("{o} runs {s}.", "Its chief executive is {o}.", "{s} is led by {o}."),
    "based_in": ("{s} is based in {o}.", "Its head office is in {o}.", "{s} works out of {o}."),
    "founded": (
        "{s} was founded in {o}.",
        "The company dates from {o}.",
        "Business began in {o}.",
    ),
    "maker": ("{s} is made by {o}.", "{o} makes {s}.", "The maker of {s} is {o}."),
    "designer": (
        "{o} designed {s}.",
        "The design is the work of {o}.",
        "{s} was designed by {o}.",
    ),
    "released": (
        "{s} was released in {o}.",
        "It reached shops in {o}.",
        "The first release came in {o}.",
    ),
    "campus": ("{s} is in {o}.", "The campus lies in {o}.", "Students of {s} live in {o}."),
    "opened": ("{s} opened in {o}.", "Teaching began in {o}.", "The school dates from {o}."),
    "rector": ("{o} is the rector of {s}.", "Its rector is {o}.", "{s} is headed by {o}."),
    "country": ("{s} is a city in {o}.", "{s} lies in {o}.", "The city belongs to {o}."),
    "river": (
        "The {o} flows through {s}.",
        "{s} stands on the {o}.",
        "The {o} crosses the old town.",
    ),
    "mayor": ("{o} is the mayor of {s}.", "The mayor is {o}.", "Voters chose {o} as mayor."),
    "capital": (
        "The capital of {s} is {o}.",
        "{o} is the capital.",
        "The government of {s} sits in {o}.",
    ),
    "president": (
        "{o} is the president of {s}.",
        "The president is {o}.",
        "{s} is governed by President {o}.",
    ),
    "host": (
        "{s} is awarded in {o}.",
        "The ceremony takes place in {o}.",
        "Every year {o} hosts the ceremony.",
    ),
    "sponsor": (
        "{s} is sponsored by {o}.",
        "The sponsor is {o}.",
        "{o} pays for the ceremony.",
    ),
    "director": (
        "{s} was directed by {o}.",
        "{o} directed the film.",
        "The director of {s} is {o}.",
    ),
    "studio": (
        "{s} was produced by {o}.",
        "{o} produced the film.",
        "The producer of {s} is {o}.",
    ),
    "premiere": (
        "{s} premiered in {o}.",
        "Audiences first saw it in {o}.",
        "The premiere was held in {o}.",
    ),
    "source": (
        "{s} rises in {o}.",
        "The springs of {s} lie in {o}.",
        "{s} begins in the hills of {o}.",
    ),
    "museum_city": ("{s} is in {o}.", "The collection is shown in {o}.", "{s} stands in {o}."),
    "curator": ("{o} is the curator of {s}.", "Its curator is {o}.", "{s} is curated by {o}."),
    "museum_opened": (
        "{s} was inaugurated in {o}.",
        "The doors opened in {o}.",
        "Visitors were let in from {o}.",
    ),
}

OPENINGS: dict[str, tuple[str, ...]] = {
    "person": ("{s} is a public figure.", "{s} is known far beyond a small circle."),
    "company": ("{s} is a company.", "{s} is a firm with a long order book."),
    "product": ("{s} is a product sold in many countries.", "{s} is a well-known product."),
    "university": ("{s} is a university.", "{s} is a place of learning."),
    "city": ("{s} is a city.", "{s} is a busy city with a market square."),
    "country": ("{s} is a country.", "{s} is a country with a varied coast."),
    "prize": ("{s} is a prize.", "{s} is a yearly distinction."),
    "film": ("{s} is a film.", "{s} is a feature film."),
    "river": ("{s} is a river.", "{s} is a slow river."),
    "museum": ("{s} is a museum.", "{s} is a museum visited by many schools."),
}

FILLERS = (
    "Local papers have written about it more than once.",
    "Several books mention the subject in passing.",
    "Opinions about the early years differ.",
    "A small exhibition once told the story.",
    "The archives hold letters from that time.",
    "Neighbours remember it well.",
    "Details of the first years are scarce.",
    "An anniversary was marked with a modest event.",
    "Visitors often ask about the name.",
    "Much of this is retold in guidebooks.",
)


def passage_about(world: World, entity: str, seed: int | str) -> Passage:
    """The passage of an entity: an opening, every fact in one of its wordings, filler up to 30
    words. The same for the same seed."""
    rng = random.Random(f"prose-{seed}-{entity}")
    kind = world.types[entity]
    facts = world.of(entity)
    rng.shuffle(facts)
    lines = [rng.choice(OPENINGS[kind]).format(s=entity)]
    lines += [rng.choice(SENTENCES[f.relation]).format(s=entity, o=f.object) for f in facts]
    fillers = rng.sample(FILLERS, len(FILLERS))
    least = rng.randint(WORDS[0], WORDS[0] + 25)
    while _words(lines) < least and fillers:
        lines.insert(rng.randint(1, len(lines)), fillers.pop())
    text = " ".join(lines)
    return Passage(passage_id(entity, text), entity, text)


def _words(lines: list[str]) -> int:
    return sum(len(line.split()) for line in lines)
