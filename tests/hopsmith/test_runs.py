"""What a run folder shows: reports, lists, chains, estimates and limits on the command line."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.report import write_report
from hopsmith.running import limits
from hopsmith.settings import load_settings
from optimize.saved import read_run
from tests.hopsmith.test_cli import one_line, run
from tests.hopsmith.test_tree_html import Page
from tests.optimize.saved_runs import answered, question, saved

QUESTIONS = [question(n, hops=1 + n % 3) for n in range(230)]


def page_of(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines and the chunks that a report holds."""
    rows = re.search(r'<script type="application/json" id="rows">(.*?)</script>', text, re.S)
    assert rows is not None
    chunks = re.findall(r'data-chunk="\d+">([A-Za-z0-9+/=]+)</script>', text)
    unpacked = [json.loads(gzip.decompress(base64.b64decode(held))) for held in chunks]
    return json.loads(rows[1]), unpacked


def test_a_report_holds_every_question_with_its_tree_and_stands_alone(tmp_path: Path) -> None:
    rows = [answered(q, n % 2 == 0, found=1) for n, q in enumerate(QUESTIONS)]
    path = write_report(saved(tmp_path / "run", QUESTIONS, rows))
    text = path.read_text()
    lines, chunks = page_of(text)
    assert [line["id"] for line in lines] == [q.id for q in QUESTIONS]
    assert [len(chunk["bodies"]) for chunk in chunks] == [100, 100, 30]
    assert {line["verdict"] for line in lines} == {"right", "wrong"}
    broken = next(line for line in lines if line["stage"])
    body = chunks[broken["place"] // 100]["bodies"][broken["place"] % 100]
    assert "broke here" in body
    assert "never retrieved" in body
    assert "</script><b>" not in text
    seen = Page(text)
    assert not {"link", "img", "iframe"} & set(seen.tags)
    assert not {"src", "onclick"} & {name for name, _ in seen.attributes}
    assert "http" not in text.replace("http-equiv", "")


def test_a_report_stays_light(tmp_path: Path) -> None:
    rows = [answered(q) for q in QUESTIONS]
    path = write_report(saved(tmp_path / "run", QUESTIONS, rows))
    assert path.stat().st_size < 1500 * len(QUESTIONS)


def test_a_report_of_an_unfinished_run_says_so(tmp_path: Path) -> None:
    text = write_report(
        saved(tmp_path / "run", QUESTIONS[:3], [answered(QUESTIONS[0])])
    ).read_text()
    assert "2 of 3 questions were not asked yet" in text


def test_show_lists_and_prints_one_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [answered(q, n > 1, found=n) for n, q in enumerate(QUESTIONS[:3])]
    folder = saved(tmp_path / "run", QUESTIONS[:3], rows).folder
    code, out, _ = run(capsys, "show", folder, "--verdict", "wrong", "--json")
    told = json.loads(out)
    assert (code, [q["id"] for q in told["questions"]]) == (0, ["q0", "q1"])
    code, out, _ = run(capsys, "show", folder, "--question", "q1")
    assert code == 0
    for words in ("broke at retrieval, hop 2", "title of q1p0", "never retrieved", "← broke here"):
        assert words in out
    code, out, _ = run(capsys, "show", folder, "--ledger")
    assert [line.split("┃")[1].split()[0] for line in out.splitlines() if "LM calls" in line] == [
        "id"
    ]
    assert [line.split("│")[1].strip() for line in out.splitlines() if "│" in line] == [
        *("q2", "q1", "q0", "all")
    ]
    for words, mend in (
        (["--question", "nope"], "has no question 'nope'"),
        (["--stage", "magic"], "there are planning"),
        (["--verdict", "magic"], "there are right"),
    ):
        code, _, err = run(capsys, "show", folder, *words)
        assert (code, mend in one_line(err)) == (2, True)
    code, _, err = run(capsys, "show", tmp_path / "none")
    assert (code, "holds no run" in one_line(err)) == (2, True)


def test_report_writes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(tmp_path / "run", QUESTIONS[:1], [answered(QUESTIONS[0])]).folder
    code, out, _ = run(capsys, "report", folder, "--out", tmp_path / "page.html", "--json")
    assert (code, json.loads(out)["report"]) == (0, str(tmp_path / "page.html"))
    code, _, err = run(capsys, "report", folder, "--out", tmp_path / "no" / "page.html")
    assert (code, "there is no folder" in one_line(err)) == (2, True)


@pytest.fixture
def dev(world: Benchmark, tmp_path: Path) -> Path:
    path = tmp_path / "dev.jsonl"
    lines = [json.dumps(question_to_json(q)) for q in world.questions["dev"]]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_dry_run_estimates_and_its_answers_are_kept(
    dev: Path, small_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    total = len(dev.read_text().splitlines())
    words = ["eval", "--data", dev, "--index", small_index, "--lm", "oracle", "--out"]
    words += [tmp_path / "run", "--json"]
    code, out, _ = run(capsys, *words, "--dry-run")
    told = json.loads(out)["estimate"]
    asked = len((tmp_path / "run" / "predictions.jsonl").read_text().splitlines())
    assert code == 0
    assert (told["sample"], told["questions"]) == (asked, total - asked)
    assert told["lm_calls"] > 0
    code, out, _ = run(capsys, *words)
    assert json.loads(out)["n"] == total
    assert len((tmp_path / "run" / "predictions.jsonl").read_text().splitlines()) == total
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_limit_stops_cleanly_and_the_run_goes_on_with_a_higher_one(
    dev: Path, small_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    total = len(dev.read_text().splitlines())
    words = ["eval", "--data", dev, "--index", small_index, "--lm", "oracle", "--workers", 1]
    words += ["--out", tmp_path / "run", "--json"]
    code, out, _ = run(capsys, *words, "--max-calls", 9)
    told = json.loads(out)
    assert (code, told["stopped"]) == (0, "--max-calls 9")
    assert 0 < told["n"] < total
    told = json.loads(run(capsys, *words)[1])
    assert (told["n"], told["stopped"]) == (total, None)


def test_a_cost_limit_without_a_price_is_refused() -> None:
    from hopsmith.errors import HopsmithError

    with pytest.raises(HopsmithError, match="give --price IN,OUT"):
        limits(load_settings(lm="local", max_cost=1.0))
    assert limits(load_settings(lm="local", max_cost=1.0, price="1,2")).max_cost == 1.0


def test_compare_runs_methods_scores_a_peer_and_refuses_what_does_not_fit(
    dev: Path, small_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [json.loads(line) for line in dev.read_text().splitlines()]
    peer = tmp_path / "peer.jsonl"
    peer.write_text(
        "".join(json.dumps({"id": q["id"], "answer": q["answer"]}) + "\n" for q in questions[1:])
    )
    code, out, err = run(capsys, "score", peer, "--data", dev, "--json")
    scored = json.loads(out)
    assert code == 0
    assert scored["missing"] == [questions[0]["id"]]
    assert "1 questions have no prediction and count as failed" in err
    words = ["compare", scored["run"], "--methods", "single_shot,decompose", "--data", dev]
    words += ["--index", small_index, "--lm", "oracle", "--resamples", 200, "--no-track"]
    words += ["--baseline", "single_shot", "--out", tmp_path / "c", "--json"]
    code, out, _ = run(capsys, *words)
    told = json.loads(out)
    assert code == 0
    assert [r["label"] for r in told["runs"]] == ["peer", "single_shot", "decompose"]
    assert told["baseline"] == "single_shot"
    assert set(told["files"]) >= {"compare.md", "compare.html", "compare.csv", "compare.json"}
    page = (tmp_path / "c" / "compare.html").read_text()
    assert "Question by question" in page
    assert not {"link", "img"} & set(re.findall(r"<(\w+)", page))
    folder = next(r["run"] for r in told["runs"] if r["label"] == "decompose")
    assert read_run(Path(folder)).left == 0
    few = ["eval", "--data", dev, "--index", small_index, "--lm", "oracle", "--limit", 2]
    run(capsys, *few, "--out", tmp_path / "few")
    code, _, err = run(capsys, "compare", tmp_path / "few", folder)
    assert (code, "different questions" in one_line(err)) == (2, True)


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["compare"], "two runs at least"),
        (["compare", "--benchmark", "synthetic"], "name some to run"),
        (["compare", "--methods", "magic", "--benchmark", "synthetic"], "no method 'magic'"),
        (["compare", "nowhere"], "holds no run"),
        (["score", "nowhere.jsonl", "--benchmark", "synthetic"], "nowhere.jsonl"),
        (["eval", "--benchmark", "synthetic", "--lm", "oracle", "--max-cost", 1], "--max-cost"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], mend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert mend in one_line(err)
