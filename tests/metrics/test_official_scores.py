"""EM, F1, precision and recall against what the data sets' own scripts say, to the last digit."""

import json
import os
from pathlib import Path

import pytest

from metrics import Record, metric
from metrics.normal import against, best_against, normal_answer

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HOPSMITH_TEST_DATA", ROOT.parent / "shared" / "data"))
RULES = {"hotpotqa": "hotpotqa", "2wikimultihopqa": "hotpotqa", "musique": "squad"}
KEYS = {"em": "em", "f1": "f1", "precision": "answer_precision", "recall": "answer_recall"}


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_official_score_is_met_exactly(name: str) -> None:
    path = DATA / "official_scores" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here (set HOPSMITH_TEST_DATA)")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    compared = 0
    for row in rows:
        record = Record(
            id="q",
            question="?",
            answer=row["prediction"],
            answers=tuple(row["answers"]),
            answer_rule=RULES[name],
        )
        for key in KEYS.keys() & row.keys():
            assert metric(KEYS[key]).score(record) == row[key], (key, row)
            compared += 1
    assert compared >= 2 * len(rows) > 600


def test_the_two_rules_differ_on_yes_and_no() -> None:
    assert against("yes it is", "yes", "squad").f1 == 0.5
    assert against("yes it is", "yes", "hotpotqa").f1 == 0.0
    assert against("no", "no one", "hotpotqa").f1 == 0.0
    assert against("Yes.", "yes", "hotpotqa").f1 == 1.0


def test_empty_answers_agree_under_squad_only() -> None:
    assert against("the", "a", "squad").f1 == 1.0
    assert against("the", "a", "hotpotqa").f1 == 0.0
    assert against("the", "Rome", "squad").f1 == 0.0


def test_normalisation_drops_case_punctuation_and_articles_but_no_accents() -> None:
    assert normal_answer("  The  Á-b; an  apple") == "áb apple"


def test_each_of_em_and_f1_takes_its_best_alias() -> None:
    score = best_against("Boris Yeltsin", ["Yeltsin", "President Boris Yeltsin"], "squad")
    assert score.em == 0.0
    assert score.f1 == pytest.approx(0.8)
    assert best_against("x", [], "squad").f1 == 0.0
