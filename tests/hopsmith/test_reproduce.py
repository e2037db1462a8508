"""reproduce, trigger: a study from one command, the paper's numbers beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hopsmith.cli import app, guarded
from hopsmith.reproducing import Material, _for
from hopsmith.settings import load_settings
from optimize.studies import STUDIES, study
from optimize.study_table import Result, averages, ratios, spread, tables
from programs import methods


def call(*words: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    def run(**more: Any) -> None:
        app([str(w) for w in words], **more)

    code = guarded(run)
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out.startswith("{") else told.out, told.err


def test_every_study_is_of_methods_and_metrics_that_there_are() -> None:
    from metrics import metric

    for one in STUDIES:
        assert set(one.methods) - {"proprag"} <= set(methods()), one.name
        if one.kind != "statistics":
            for name in one.metrics:
                metric(name)
        columns = {column.name for column in one.columns}
        for column, method, place, _ in one.numbers:
            assert column in columns, one.name
            assert method in (*one.methods, ""), one.name
            assert place in (*one.benchmarks, "average"), one.name


def test_printed_averages_are_the_means_of_their_rows() -> None:
    for name in ("par2-table1", "par2-table2", "par2-table3", "par2-table4"):
        one = study(name)
        for (column, method, place, metric), value in one.numbers.items():
            if place == "average":
                row = [one.numbers[column, method, b, metric] for b in one.benchmarks]
                assert value == pytest.approx(sum(row) / len(row), abs=0.011), (name, method)


def test_averages_are_of_methods_that_ran_everywhere() -> None:
    one = study("par2-table1")
    results = [
        Result("lm", "", "par2", "musique", "em", 0.4),
        Result("lm", "", "par2", "frames", "em", 0.6),
        Result("lm", "", "react", "musique", "em", 0.4),
    ]
    (mean,) = averages(one, results)
    assert (mean.method, mean.value) == ("par2", 0.5)


def test_ratios_are_against_the_baseline() -> None:
    results = [
        Result("lm", "", "ircot", "musique", "prompt_tokens", 940.0),
        Result("lm", "", "hiq_depth1", "musique", "prompt_tokens", 100.0),
    ]
    found = ratios(study("hiq-cost"), results)["hiq_depth1"]["prompt_tokens"]
    assert found == pytest.approx(100 / 940)


def test_spread_is_over_budgets() -> None:
    one = study("par2-steps")
    results = [
        Result("lm", f"{n} steps", "par2", "musique", "em", value)
        for n, value in ((3, 0.2), (5, 0.4))
    ]
    assert spread(one, results, "em")["par2"] == pytest.approx((0.3, 0.1414), abs=1e-3)


@pytest.fixture
def dev(data: Path, tmp_path: Path) -> Path:
    """Four real questions of MuSiQue."""
    lines = (data / "musique" / "dev.jsonl").read_text().splitlines()[:4]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_study_is_one_command_and_goes_on(
    dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        *("reproduce", "hiq-trigger", "--data", f"musique={dev}", "--lm", "oracle"),
        *("--engine", "bm25", "--out", tmp_path / "study", "--json"),
    )
    code, told, err = call(*words, capsys=capsys)
    assert code == 0, err
    shown = {r["metric"]: r for r in told["results"] if r["method"] == "hiq"}
    assert shown["precision"]["paper"] == 0.9
    assert told["ceiling"]
    assert (tmp_path / "study" / "study.md").is_file()
    rows = next((tmp_path / "study" / "runs").iterdir()) / "predictions.jsonl"
    size = rows.stat().st_size
    assert call(*words, capsys=capsys)[0] == 0
    assert rows.stat().st_size == size
    code, report, err = call(
        "trigger",
        rows.parent,
        *("--sample", 2, "--out", tmp_path / "cases.jsonl", "--json"),
        capsys=capsys,
    )
    assert code == 0, err
    assert report["measures"]["precision"]["value"] == shown["precision"]["value"]
    assert report["sampled"]["cases"] <= 2


def test_a_step_study_draws_its_plot(
    dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, err = call(
        *("reproduce", "par2-steps", "--data", f"musique={dev}", "--lm", "oracle"),
        *("--engine", "bm25", "--out", tmp_path / "study", "--json"),
        capsys=capsys,
    )
    assert code == 0, err
    assert Path(told["plot"]).read_bytes().startswith(b"\x89PNG")
    assert set(told["spread"]) == {"ircot", "coverage_anchor", "iterative_chain", "par2"}


def test_statistics_need_no_lm(
    dev: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, err = call(
        *("reproduce", "par2-table5", "--data", f"musique={dev}", "--lm", "oracle"),
        *("--out", tmp_path / "study", "--json"),
        capsys=capsys,
    )
    assert code == 0, err
    found = {r["metric"]: r for r in told["results"]}
    assert found["questions"]["value"] == 4
    assert found["mean_words"]["paper"] == 489.52


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("par2-table9",), "no study 'par2-table9'"),
        (("par2-table1",), "needs questions: give --data NAME=FILE"),
        (("par2-table1", "--data", "musique"), "is not BENCHMARK=FILE"),
        (("hiq-trigger", "--data", "frames=x"), "it has no frames"),
    ],
)
def test_bad_input_names_the_mend(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call("reproduce", *words, capsys=capsys)
    assert code == 2
    assert said in err


def test_seconds_are_never_those_of_the_lm_cache() -> None:
    settings, material = load_settings(lm="local"), Material({}, {})
    (column,) = study("hiq-cost").columns
    assert not _for(study("hiq-cost"), column, settings, material).lm_cache
    assert _for(study("hiq-ablation"), column, settings, material).lm_cache


def test_small_amounts_of_money_are_shown() -> None:
    shown = [Result("lm", "", "ircot", "musique", "cost", 0.000523)]
    (table,) = tables(study("hiq-cost"), shown)
    assert table.rows == (("cost", "ircot", "0.00052"),)
