"""Relations of Wikidata as questions: MuSiQue writes ``A >> relation``, 2Wiki gives triples."""

from __future__ import annotations

QUESTIONS = {
    "applies to jurisdiction": "To which jurisdiction does {s} apply?",
    "author": "Who is the author of {s}?",
    "award received": "Which award did {s} receive?",
    "capital": "What is the capital of {s}?",
    "capital of": "What is {s} the capital of?",
    "cast member": "Who is a cast member of {s}?",
    "cause of death": "What was the cause of death of {s}?",
    "child": "Who is the child of {s}?",
    "composer": "Who is the composer of {s}?",
    "conflict": "In which conflict did {s} take part?",
    "contains administrative territorial entity": "Which administrative area does {s} contain?",
    "continent": "On which continent is {s}?",
    "country": "In which country is {s}?",
    "country of citizenship": "What is the country of citizenship of {s}?",
    "country of origin": "What is the country of origin of {s}?",
    "creator": "Who is the creator of {s}?",
    "crosses": "What does {s} cross?",
    "date of birth": "When was {s} born?",
    "date of death": "When did {s} die?",
    "director": "Who is the director of {s}?",
    "educated at": "Where was {s} educated?",
    "employer": "Who is the employer of {s}?",
    "father": "Who is the father of {s}?",
    "followed by": "What is {s} followed by?",
    "follows": "What does {s} follow?",
    "founded by": "Who founded {s}?",
    "has part": "What is a part of {s}?",
    "inception": "When was {s} founded?",
    "instance of": "What kind of thing is {s}?",
    "licensed to broadcast to": "To which place is {s} licensed to broadcast?",
    "located in or next to body of water": "In or next to which body of water is {s}?",
    "located in the administrative territorial entity": "In which administrative area is {s}?",
    "located on terrain feature": "On which terrain feature is {s}?",
    "location": "Where is {s}?",
    "location of formation": "Where was {s} formed?",
    "manufacturer": "Who is the manufacturer of {s}?",
    "member of": "What is {s} a member of?",
    "member of political party": "Of which political party is {s} a member?",
    "member of sports team": "Of which sports team is {s} a member?",
    "mother": "Who is the mother of {s}?",
    "mouth of the watercourse": "Where is the mouth of {s}?",
    "named after": "What is {s} named after?",
    "owned by": "Who owns {s}?",
    "part of": "What is {s} part of?",
    "performer": "Who is the performer of {s}?",
    "place of birth": "Where was {s} born?",
    "place of burial": "Where was {s} buried?",
    "place of death": "Where did {s} die?",
    "position held": "Which position did {s} hold?",
    "producer": "Who is the producer of {s}?",
    "publication date": "When was {s} published?",
    "publisher": "Who is the publisher of {s}?",
    "record label": "What is the record label of {s}?",
    "screenwriter": "Who is the screenwriter of {s}?",
    "shares border with": "What does {s} share a border with?",
    "sibling": "Who is the sibling of {s}?",
    "sport": "Which sport does {s} play?",
    "spouse": "Who is the spouse of {s}?",
    "work location": "Where did {s} work?",
}


def asked(subject: str, relation: str) -> str:
    """The question for a triple's object; ``subject`` may be a reference such as {answer_1}."""
    wording = QUESTIONS.get(relation.strip().casefold())
    if wording is None:
        wording = f"What is the {relation.strip()} of {{s}}?"
    return wording.replace("{s}", subject)
