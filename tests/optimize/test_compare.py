"""Comparisons: paired, corrected, and refused where they would mean nothing."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metrics import holm, paired
from optimize.compare import EQUAL, compare_runs, labels_of
from optimize.compare_figures import by_hops, pareto, svg
from optimize.compare_write import compared_markdown, write_comparison
from optimize.errors import CompareError
from optimize.saved import SavedRun
from optimize.tables import broken_table, csv_rows, differences_table, scores_table, to_csv
from tests.optimize.saved_runs import answered, question, saved

QUESTIONS = [question(n, hops=1 + n % 3) for n in range(12)]
FEW = {"resamples": 300}


def run(folder: Path, right: int, found: int = 2, **header: Any) -> SavedRun:
    """Right on the first ``right`` questions."""
    rows = [answered(q, n < right, found) for n, q in enumerate(QUESTIONS)]
    return saved(folder, QUESTIONS, rows, **header)


@pytest.fixture
def three(tmp_path: Path) -> list[SavedRun]:
    return [
        run(tmp_path / "base", 3),
        run(tmp_path / "good", 11, found=3),
        run(tmp_path / "same", 3),
    ]


def test_each_run_is_paired_with_the_baseline_and_p_corrected_over_the_runs(
    three: list[SavedRun],
) -> None:
    found = compare_runs(three, seed=5, **FEW)
    assert found.baseline == "base"
    base, good, same = found.entries
    assert base.cells["em"].difference is None
    gap = good.cells["em"].difference
    plain = paired([1.0] * 3 + [0.0] * 9, [1.0] * 11 + [0.0], seed=5, **FEW)
    assert gap is not None
    assert gap.difference == pytest.approx(plain.difference) == pytest.approx(8 / 12)
    other = same.cells["em"].difference
    assert other is not None
    assert [good.cells["em"].p, same.cells["em"].p] == holm([gap.p, other.p])


def test_another_baseline_turns_the_signs(three: list[SavedRun]) -> None:
    by_method = compare_runs(three, baseline="good", **FEW)
    by_folder = compare_runs(three, baseline=str(three[1].folder), **FEW)
    assert by_method.baseline == by_folder.baseline == "good"
    gap = by_method.entries[0].cells["f1"].difference
    assert gap is not None
    assert gap.difference < 0
    with pytest.raises(CompareError, match="no one run is called 'best'; there are base, good"):
        compare_runs(three, baseline="best", **FEW)


def test_equal_passages_cuts_every_run_at_the_shortest_reading(tmp_path: Path) -> None:
    long = run(tmp_path / "long", 3, found=3)
    rows = [answered(q, ranked=[q.supporting[0]], hops=[]) for q in QUESTIONS]
    short = saved(tmp_path / "short", QUESTIONS, rows)
    cells = [e.cells for e in compare_runs([long, short], **FEW).entries]
    assert cells[0]["support_recall@5"].value.value > cells[1]["support_recall@5"].value.value
    assert cells[0][EQUAL].value.value == cells[1][EQUAL].value.value


def test_a_closed_book_run_stays_out_of_the_cut(three: list[SavedRun], tmp_path: Path) -> None:
    rows = [answered(q, hops=[], ranked=[]) for q in QUESTIONS]
    closed = saved(tmp_path / "closed", QUESTIONS, rows)
    *_, entry = compare_runs([*three[:2], closed], **FEW).entries
    assert entry.cells[EQUAL].value is None
    assert entry.cells["support_recall@5"].value.value == 0.0


def test_other_questions_are_refused_with_both_hashes(
    three: list[SavedRun], tmp_path: Path
) -> None:
    some = QUESTIONS[:5]
    other = saved(tmp_path / "other", some, [answered(q) for q in some])
    with pytest.raises(CompareError, match=r"different questions \(12, hash .* 5 are in both"):
        compare_runs([three[0], other], **FEW)
    changed = [question(n, hops=1 + n % 3, answer="another") for n in range(12)]
    other = saved(tmp_path / "changed", changed, [answered(q) for q in changed])
    with pytest.raises(CompareError, match="another text or gold"):
        compare_runs([three[0], other], **FEW)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"answer_rule": "hotpotqa"}, "scored by the rule squad.*by hotpotqa"),
        ({"definitions": 0}, "metric definitions 0, this version has"),
    ],
)
def test_other_definitions_are_refused(
    three: list[SavedRun], tmp_path: Path, header: dict[str, Any], why: str
) -> None:
    with pytest.raises(CompareError, match=why):
        compare_runs([three[0], run(tmp_path / "other", 3, **header)], **FEW)


def test_unfinished_runs_lone_runs_and_a_run_named_twice_are_refused(
    three: list[SavedRun], tmp_path: Path
) -> None:
    half = saved(tmp_path / "half", QUESTIONS, [answered(QUESTIONS[0])])
    with pytest.raises(CompareError, match="11 of 12 questions still to ask"):
        compare_runs([three[0], half], **FEW)
    with pytest.raises(CompareError, match="two runs at least"):
        compare_runs(three[:1], **FEW)
    with pytest.raises(CompareError, match="named twice"):
        compare_runs([three[0], three[0]], **FEW)


def test_ceilings_corpora_and_failures_are_warned_about(tmp_path: Path) -> None:
    failed = [answered(q, answer=None, stop_reason="error", error="down") for q in QUESTIONS[:2]]
    rows = [*failed, *(answered(q) for q in QUESTIONS[2:])]
    runs = [
        run(tmp_path / "a", 3, ceiling=True),
        saved(tmp_path / "b", QUESTIONS, rows, corpus_hash="d"),
    ]
    found = compare_runs(runs, **FEW)
    assert [
        any(w in told for told in found.warnings) for w in ("corpora", "oracle", "2 of 12")
    ] == [True] * 3
    assert found.entries[1].cells["em"].value.value == pytest.approx(10 / 12)
    assert found.entries[1].cells["errors"].value.value == pytest.approx(2 / 12)


def test_a_collapsed_router_is_named(tmp_path: Path) -> None:
    one = [answered(q, extra={"route": "bridge"}) for q in QUESTIONS]
    two = [
        answered(q, extra={"route": "bridge" if n % 2 else "none"}) for n, q in enumerate(QUESTIONS)
    ]
    runs = [saved(tmp_path / "one", QUESTIONS, one), saved(tmp_path / "two", QUESTIONS, two)]
    (told,) = compare_runs(runs, **FEW).warnings
    assert "one: The router has collapsed to one route, bridge" in told


def test_labels_tell_runs_apart(tmp_path: Path) -> None:
    def lm(name: str) -> dict[str, Any]:
        return {"method": "ircot", "identity": {"lms": {"default": {"name": name}}}}

    runs = [run(tmp_path / n, 1, **lm(f"openai/{m}")) for n, m in (("a", "x"), ("b", "y"))]
    assert labels_of(runs) == ["ircot · x", "ircot · y"]
    runs = [run(tmp_path / n, 1, **lm("openai/x")) for n in ("c", "d")]
    assert labels_of(runs) == ["ircot · c", "ircot · d"]


def test_a_comparison_is_written_as_markdown_csv_json_and_plots(
    three: list[SavedRun], tmp_path: Path
) -> None:
    found = compare_runs(three, **FEW)
    files = write_comparison(found, tmp_path / "out")
    assert set(files) == {"compare.md", "compare.csv", "compare.json", "pareto.png", "by_hops.png"}
    assert all(path.stat().st_size for path in files.values())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "compare.csv").read_text())))
    em = next(r for r in rows if (r["run"], r["metric"], r["group"]) == ("good", "em", "all"))
    assert float(em["difference"]) == pytest.approx(8 / 12)
    text = compared_markdown(found, [])
    for words in ("n=12", three[0].header.questions_hash, "| good |", "detectable", "Pareto"):
        assert (words in text) is (words != "Pareto")


def test_tables_leave_out_what_says_nothing(three: list[SavedRun]) -> None:
    found = compare_runs(three, **FEW)
    assert "cost" not in scores_table(found).columns
    assert {row[0] for row in differences_table(found).rows} == {"good"}


def test_the_stages_of_a_row_add_up_to_its_wrong_answers(three: list[SavedRun]) -> None:
    found = compare_runs(three, **FEW)
    table = broken_table({e.label: e.broken for e in found.entries})
    for row in table.rows:
        assert int(row[3]) == sum(map(int, row[4:]))
    assert "synthesis" in table.columns


def test_plots_need_something_to_plot(three: list[SavedRun]) -> None:
    found = compare_runs(three, **FEW)
    drawn = svg(pareto(found))
    assert drawn.startswith("<svg")
    assert "currentColor" in drawn
    one_hop = [e.by["hops"] for e in found.entries]
    flat = tuple(
        replace(e, by={**e.by, "hops": {"1": hops["1"]}})
        for e, hops in zip(found.entries, one_hop, strict=True)
    )
    assert by_hops(replace(found, entries=flat)) is None


def test_csv_keeps_every_column(three: list[SavedRun]) -> None:
    rows = csv_rows(compare_runs(three, **FEW))
    head = to_csv(rows).splitlines()[0].split(",")
    assert {"run", "metric", "value", "low", "high", "p_holm", "detectable", "definition"} <= set(
        head
    )
