"""The command line: one JSON object on stdout, one line for a fault, the right exit code."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from benchmarks import Benchmark, question_to_json
from hopsmith.cli import app, guarded


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    before = sys.argv
    sys.argv = ["hopsmith", *map(str, words)]
    try:
        code = guarded(app)
    finally:
        sys.argv = before
    told = capsys.readouterr()
    return code, told.out, told.err


def one_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("hopsmith: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


@pytest.fixture
def corpus(world: Benchmark, tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in world.corpus[:6]]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_index_add_delete_and_search(
    corpus: Path, world: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "index"
    code, told, _ = run(capsys, "index", corpus, "--out", out, "--json")
    assert code == 0
    assert json.loads(told)["passages"] == 6
    more = tmp_path / "more.jsonl"
    new = world.corpus[10]
    more.write_text(json.dumps({"id": "new", "title": new.title, "text": new.text}) + "\n")
    assert run(capsys, "add", out, more)[0] == 0
    code, told, _ = run(capsys, "search", new.title, "--index", out, "--k", 2, "--json")
    (found,) = json.loads(told)["results"]
    assert found[0]["id"] == "new"
    assert set(found[0]) == {"id", "title", "score", "rank"}
    assert run(capsys, "delete", out, "new")[0] == 0
    code, told, _ = run(capsys, "compact", out, "--json")
    assert (code, json.loads(told)["passages"]) == (0, 6)
    assert len(list((out / "segments").iterdir())) == 1
    _, told, _ = run(capsys, "search", new.title, "--index", out, "--json")
    assert "new" not in [p["id"] for p in json.loads(told)["results"][0]]


def test_search_filters_by_metadata_and_cites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "corpus.csv"
    rows = [
        f"{i},Note {i},A note on rivers.,{2000 + i},{'a.pdf' if i % 2 else ''},{i}"
        for i in range(9)
    ]
    table.write_text("\n".join(["id,title,text,year,source,page", *rows]) + "\n")
    out = tmp_path / "index"
    assert run(capsys, "index", table, "--out", out, "--engine", "bm25")[0] == 0
    words = ["search", "rivers", "--index", out, "--where", "year>=2004"]
    _, told, _ = run(capsys, *words, "--json")
    (found,) = json.loads(told)["results"]
    assert [p["id"] for p in found] == ["4", "5", "6", "7", "8"]
    assert found[1]["metadata"] == {"year": "2005", "source": "a.pdf", "page": "5"}
    _, told, _ = run(capsys, *words, "--where", "source=a.pdf")
    assert "Note 5 (a.pdf, p. 5)" in told
    assert "Note 6" not in told
    for condition, mend in (("yaer=1", "there are id, page, source"), ("year>3000", "loosen")):
        code, told, err = run(capsys, "search", "rivers", "--index", out, "--where", condition)
        assert (code, told) == (2, "")
        assert mend in one_line(err)


@pytest.mark.parametrize(
    ("content", "mend"),
    [
        ("", "the corpus is empty"),
        ('{"id": "1", "text": "a b"}\n{"id": "1", "text": "c d"}\n', "the id '1'"),
        ('{"id": "1", "text": "a b"}\n{"id": \n', "bad.jsonl:2 is no JSON"),
        ('{"id": "1"}\n', "bad.jsonl:1 lacks ['text']"),
        ("[1]\n", "bad.jsonl:1 is no JSON object"),
    ],
)
def test_a_bad_corpus_is_one_line_and_leaves_nothing(
    content: str, mend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(content)
    code, out, err = run(capsys, "index", bad, "--out", tmp_path / "index")
    assert code == 2
    assert mend in one_line(err)
    assert out == ""
    assert {p.name for p in tmp_path.iterdir()} == {"bad.jsonl"}


def test_bad_utf8_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"id": "1", "text": "caf\xe9"}\n')
    code, _, err = run(capsys, "index", bad, "--out", tmp_path / "index")
    assert (code, "no UTF-8" in one_line(err)) == (2, True)


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["index", "nowhere.jsonl", "--out", "i"], "no corpus at nowhere.jsonl"),
        (["search", "q", "--index", "nowhere"], "hopsmith index CORPUS --out DIR"),
        (["search", "q"], "no index"),
        (["ask", "q", "--index", "nowhere"], "hopsmith index"),
        (["ask", " ", "--index", "nowhere"], "the question is empty"),
        (["ask", "q", "--method", "magic"], "no method 'magic'; there are"),
        (["eval", "--benchmark", "magic", "--lm", "oracle"], "no benchmark 'magic'"),
        (["eval", "--lm", "oracle"], "need a file"),
        (["eval", "--benchmark", "synthetic:5,3", "--lm", "oracle"], "at least 3 questions and"),
        (["eval", "--benchmark", "synthetic:x", "--lm", "oracle"], "synthetic[:questions"),
        (["compile", "--benchmark", "synthetic", "--out", "o", "--prompts", "magic"], "--prompts"),
        (["eval", "--no-such-flag"], "--no-such-flag"),
        (
            ["eval", "--benchmark", "synthetic", "--method", "router", "--arg", "agentic=ircot"],
            "agentic is a part, which must be a program, got 'ircot': --arg can't give one",
        ),
        (
            ["eval", "--benchmark", "synthetic", "--method", "router", "--arg", "foo=1"],
            "router takes no argument 'foo'; those it takes, with their defaults: coverage=0.5",
        ),
        (["ask", "q", "--method", "direct", "--arg", "budget=1"], "takes no argument 'budget'"),
        (["ask", "q", "--method", "direct", "--arg", "knowledge=1"], "with their defaults: none"),
        (["eval", "--benchmark", "synthetic", "--split", "magic"], "there are train, dev, test"),
        (["eval", "--benchmark", "synthetic", "--price=-1,2"], "not below 0"),
        (["eval", "--benchmark", "synthetic", "--price=nan,2"], "not below 0"),
        (["compare", "--out", __file__], "is a file: give a folder"),
        (["compile", "--benchmark", "synthetic", "--out", __file__], "is a file: give a folder"),
        (["score", "nowhere.jsonl", "--data", __file__], "no file of predictions"),
        (
            ["reproduce", "par2-table5", "--data", f"musique={__file__}", "--exclude", "nowhere"],
            "--exclude: there is no file nowhere",
        ),
    ],
)
def test_bad_input_is_one_line_with_the_mend(
    words: list[str], mend: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2
    assert mend in one_line(err)
    assert out == ""


def test_no_key_names_the_variable(
    small_index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = run(capsys, "ask", "q?", "--index", small_index, "--lm", "openai/gpt-4.1-mini")
    assert code == 2
    assert "OPENAI_API_KEY" in one_line(err)
    assert "--lm local" in one_line(err)


def test_k_out_of_range_is_refused(small_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "search", "q", "--index", small_index, "--k", 0)
    assert (code, "k must be" in one_line(err)) == (2, True)


def own(world: Benchmark, folder: Path) -> dict[str, Path]:
    files = {}
    for split, questions in world.questions.items():
        files[split] = folder / f"{split}.jsonl"
        files[split].write_text("".join(json.dumps(question_to_json(q)) + "\n" for q in questions))
    return files


def test_eval_prints_one_object_and_resumes(
    world: Benchmark, small_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = own(world, tmp_path)
    words = ["eval", "--method", "decompose", "--data", files["dev"], "--index", small_index]
    words += ["--lm", "oracle", "--out", tmp_path / "run", "--json"]
    code, out, _ = run(capsys, *words)
    assert code == 0
    told = json.loads(out)
    assert told["n"] == len(world.questions["dev"])
    assert told["ceiling"] is True
    assert {"em", "f1", "support_recall@5", "all_support@5", "hop_recall", "lm_calls"} <= set(
        told["metrics"]
    )
    rows = (tmp_path / "run" / "predictions.jsonl").read_text()
    assert len(rows.splitlines()) == told["n"]
    assert json.loads(run(capsys, *words)[1])["metrics"] == told["metrics"]
    assert (tmp_path / "run" / "predictions.jsonl").read_text() == rows


def test_compile_ask_and_load_own_questions(
    world: Benchmark, small_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = own(world, tmp_path)
    flags = [w for split, path in files.items() for w in (f"--{split}", path)]
    code, out, err = run(
        capsys,
        *("compile", "--method", "decompose", *flags, "--index", small_index, "--lm", "oracle"),
        *("--oracle-noise", 0.1, "--out", tmp_path / "c", "--trials", 2, "--candidates", 1),
        "--json",
    )
    assert code == 0, err
    told = json.loads(out)
    assert {"baseline", "final", "budget", "export", "runs"} <= set(told)
    assert "baseline" in err
    assert (Path(told["export"]) / "card.md").read_text().count("Ceiling") == 1
    code, _, err = run(
        capsys, "ask", "q?", "--pipeline", told["export"], "--index", tmp_path / "none"
    )
    assert (code, "does not exist" in one_line(err)) == (2, True)


def test_a_compile_that_can_not_start_leaves_nothing(
    world: Benchmark,
    small_index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    files = own(world, tmp_path)
    out = tmp_path / "c"
    words = ["compile", "--train", files["train"], "--index", small_index, "--out", out]
    code, _, err = run(capsys, *words, "--lm", "oracle")
    assert (code, "compile needs dev questions" in one_line(err)) == (2, True)
    code, _, err = run(capsys, *words, "--dev", files["dev"], "--lm", "openai/gpt-4.1-mini")
    assert (code, "OPENAI_API_KEY" in one_line(err)) == (2, True)
    assert not out.exists()


def test_an_export_is_asked_as_it_was_measured(tmp_path: Path, world: Benchmark) -> None:
    import dspy

    from hopsmith.loading import measured_settings
    from hopsmith.settings import load_settings
    from optimize.export import export
    from programs import build
    from programs.step import ROLE_LMS

    lm = dspy.LM("openai/gpt-4.1-mini", temperature=0.3, max_tokens=700)
    own_lm = dspy.LM("openai/o4-mini", temperature=1.0, max_tokens=20000)
    with dspy.context(lm=lm, **{ROLE_LMS: {"planner": own_lm}}):
        folder = export(build("single_shot", Any), tmp_path / "e", mlflow_model=False)
    settings = measured_settings(folder, load_settings(max_tokens=50))
    assert (settings.lm, settings.temperature) == ("openai/gpt-4.1-mini", 0.3)
    assert settings.max_tokens == 50
    assert settings.role_lm == {"planner": "openai/o4-mini"}
    assert measured_settings(folder, load_settings(lm="local")).lm == "local"


def test_an_export_takes_no_other_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        capsys, "ask", "q?", "--pipeline", tmp_path, "--budget", "hops=2", "--arg", "a=1"
    )
    assert (code, "--budget and --arg can't change" in one_line(err)) == (2, True)


def test_help_is_cheap_and_imports_nothing_heavy() -> None:
    import subprocess

    heavy = "{'torch', 'colbert', 'mlflow', 'optuna', 'transformers', 'datasets', 'faiss'}"
    code = f"import sys, hopsmith.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_question_longer_than_the_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.scripted import stand_in
    from hopsmith import session
    from hopsmith.errors import HopsmithError

    monkeypatch.setattr(session, "window", lambda lm: 100)
    lm = stand_in("scripted/lm")
    session.check_question(lm, "Who founded Norvale?")
    with pytest.raises(HopsmithError, match="window holds 100: shorten it"):
        session.check_question(lm, "why " * 400)


def test_golden_reads_the_gold_passages_of_an_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, _ = run(
        capsys,
        *("eval", "--method", "golden", "--benchmark", "synthetic:30,40", "--lm", "oracle"),
        *("--out", tmp_path / "run", "--json"),
    )
    assert code == 0
    metrics = json.loads(told)["metrics"]
    assert metrics["support_recall@5"] == 1
    assert metrics["em"] == 1


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "Who?", "--method", "golden", "--index", "index"),
        ("compile", "--method", "golden", "--benchmark", "synthetic", "--out", "out"),
    ],
)
def test_golden_is_refused_where_no_gold_is_known(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *command)
    assert code == 2
    assert "works with hopsmith eval and compare alone" in one_line(err)


def test_without_a_command_the_help_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, err = run(capsys)
    assert code == 2
    assert "Usage:" in told
    assert err == ""


def test_it_says_which_version_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, version("hopsmith") + "\n", "")


def test_an_out_that_can_not_be_made_is_named(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = corpus / "index"
    code, told, err = run(capsys, "index", corpus, "--out", out, "--engine", "bm25", "--json")
    assert (code, told) == (2, "")
    assert str(corpus) in one_line(err)


def test_an_exported_pipeline_takes_no_other_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["ask", "Who?", "--pipeline", tmp_path, "--index", tmp_path, "--method", "decompose"]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "--method can't change an exported pipeline" in one_line(err)
