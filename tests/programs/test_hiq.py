"""Hi-Q: the trigger, the split, the order of needs, the bounds, and the variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import Benchmark
from benchmarks.needs import joined, need_of
from benchmarks.oracle import OracleAdapter
from benchmarks.scripted import ScriptedAdapter, stand_in
from programs import HopBudget, ProgramError, build, fingerprint, methods
from programs.trigger import as_note, cost_threshold, fit_threshold, stated
from retrieval import Passage
from signatures import Answer

ROOT = "Where was the founder of Acme born?"
LEFT = "Who founded Acme?"
RIGHT = "Where was that founder born?"
FILLED = "Where was Ada Quill born?"
VARIANTS = (
    "hiq_depth1",
    "hiq_static",
    "hiq_independent",
    "hiq_always",
    "hiq_unverified",
    "hiq_threshold",
)


class Script:
    """Answers in the place of the LM, by role; keeps what each role was given."""

    def __init__(self, **replies: Any) -> None:
        self.replies = replies
        self.inputs: dict[str, list[Mapping[str, Any]]] = {}

    def __call__(self, signature: Any, inputs: Mapping[str, Any]) -> Any:
        role = (
            "final" if signature.equals(Answer) else self.role(set(signature.output_fields), inputs)
        )
        self.inputs.setdefault(role, []).append(inputs)
        reply = self.replies[role]
        return reply(inputs) if callable(reply) else reply

    @staticmethod
    def role(outputs: set[str], inputs: Mapping[str, Any]) -> str:
        if "needs" in outputs:
            return "repair" if "fault" in inputs else "expand"
        if "covers" in outputs:
            return "verify"
        if "rewritten" in outputs:
            return "rewrite"
        if "sub_questions" in outputs:
            return "plan"
        return "synthesize" if "open_needs" in inputs else "read"

    def asked(self, role: str, name: str = "question") -> list[Any]:
        return [given[name] for given in self.inputs.get(role, [])]


def reads(**answers: str | None) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A reader that knows these questions only."""
    known = {"root": ROOT, "left": LEFT, "right": RIGHT, "filled": FILLED}
    by_text = {known[name]: answer for name, answer in answers.items()}
    return lambda given: {"answer": by_text.get(given["question"])}


def script(**changes: Any) -> Script:
    """The founder's birthplace, found in two steps."""
    usual: dict[str, Any] = {
        "read": reads(left="Ada Quill", filled="Tarn"),
        "expand": lambda given: {"needs": [LEFT, RIGHT] if given["query"] == ROOT else []},
        "verify": {"fault": "", "covers": True},
        "rewrite": {"rewritten": FILLED},
        "synthesize": {"answer": "Tarn"},
    }
    return Script(**{**usual, **changes})


@pytest.fixture
def run(words: Any) -> Callable[..., dspy.Prediction]:
    texts = [
        ("acme", "Acme", "Acme was founded by Ada Quill."),
        ("ada", "Ada Quill", "Ada Quill was born in Tarn."),
        *((f"p{i:02}", f"Place {i}", f"Place {i} is a town.") for i in range(30)),
    ]
    retriever = type(words)([Passage(*text) for text in texts])

    def ask(
        told: Script, name: str = "hiq", budget: HopBudget | None = None, **arguments: Any
    ) -> dspy.Prediction:
        program = build(name, retriever, budget, **arguments)
        adapter = ScriptedAdapter(told)
        with dspy.context(lm=stand_in("scripted/lm"), adapter=adapter, disable_history=True):
            return program(question=ROOT)

    return ask


def test_a_question_that_evidence_answers_is_not_split(run: Any) -> None:
    told = script(read=reads(root="Tarn"))
    prediction = run(told)
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "answered")
    assert prediction.usage.total.lm_calls == 1
    assert len(prediction.evidence.hops[0].passages) == 5


def test_left_is_settled_before_right_is_rewritten_with_what_it_found(run: Any) -> None:
    told = script()
    prediction = run(told)
    assert prediction.answer == "Tarn"
    assert told.asked("read") == [ROOT, LEFT, FILLED]
    (given,) = told.inputs["rewrite"]
    assert given["query"] == RIGHT
    assert given["question"] == ROOT
    assert given["previous"] == f"{LEFT} → Ada Quill"
    assert f"{LEFT} → Ada Quill" in given["facts"]
    root, left, right = prediction.evidence.hops
    assert (left.parent, right.parent) == (root.id, root.id)
    assert (right.query, right.refined) == (RIGHT, FILLED)
    assert "split" in root.note


def test_root_and_left_are_searched_as_they_are(run: Any) -> None:
    assert run(script()).evidence.queries == (ROOT, LEFT, FILLED)


def test_a_left_that_stays_open_leaves_its_evidence(run: Any) -> None:
    told = script(read=reads(filled="Tarn"))
    prediction = run(told)
    (given,) = told.inputs["rewrite"]
    assert given["facts"] == []
    assert "acme" in given["context"].ids
    assert given["previous"] == f"{LEFT} → (not found)"
    assert prediction.answer == "Tarn"
    assert told.asked("synthesize", "open_needs") == [[LEFT]]


def test_the_parent_is_written_from_facts_evidence_and_open_needs(run: Any) -> None:
    told = script()
    run(told)
    (given,) = told.inputs["synthesize"]
    assert given["question"] == ROOT
    assert given["facts"] == [f"{LEFT} → Ada Quill", f"{FILLED} → Tarn"]
    assert given["open_needs"] == []
    assert {"acme", "ada"} <= set(given["context"].ids)


@pytest.mark.parametrize(
    "needs", [[], [LEFT], [LEFT, LEFT], [ROOT, RIGHT], [LEFT, " ? "], ["a"] * 3]
)
def test_anything_but_two_needs_is_not_decomposable_and_is_read_wider(
    run: Any, needs: list[str]
) -> None:
    told = script(expand={"needs": needs}, read={"answer": None})
    prediction = run(told)
    assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert [len(c.ids) for c in told.asked("read", "context")] == [5, 10, 15, 20]
    root, *wider = prediction.evidence.hops
    assert root.status == "not_decomposable"
    assert [h.source for h in wider] == ["wider"] * 3
    assert [len(h.passages) for h in wider] == [5, 5, 5]
    assert {h.depth for h in wider} == {0}
    assert prediction.evidence.queries == (ROOT,)
    assert "synthesize" not in told.inputs


def test_wider_reading_stops_at_the_first_answer(run: Any) -> None:
    told = script(
        expand={"needs": []},
        read=lambda given: {"answer": "Tarn" if len(given["context"].ids) >= 10 else None},
    )
    prediction = run(told)
    assert (prediction.answer, prediction.stop_reason) == ("Tarn", "answered")
    assert len(told.inputs["read"]) == 2


def test_a_faulty_split_is_repaired_once(run: Any) -> None:
    bad = ["Who?", RIGHT]
    told = script(
        expand=lambda given: {"needs": bad if given["query"] == ROOT else []},
        verify=lambda given: {"fault": "no Acme", "covers": given["needs"] != bad},
        repair={"needs": [LEFT, RIGHT]},
    )
    prediction = run(told)
    assert prediction.answer == "Tarn"
    (given,) = told.inputs["repair"]
    assert (given["split"], given["fault"]) == (bad, "no Acme")
    root = prediction.evidence.hops[0]
    assert root.status == "repaired"
    assert "split, repaired (no Acme)" in root.note


def test_a_split_that_a_repair_does_not_mend_is_not_made(run: Any) -> None:
    told = script(verify={"fault": "no", "covers": False}, repair={"needs": [LEFT, "What else?"]})
    prediction = run(told)
    assert len(told.inputs["repair"]) == 1
    assert len(told.inputs["verify"]) == 2
    assert prediction.evidence.hops[0].status == "not_decomposable"
    assert prediction.evidence.queries == (ROOT,)


def test_a_verifier_that_fails_lets_the_split_stand_and_says_so(run: Any) -> None:
    prediction = run(script(verify=None))
    assert prediction.answer == "Tarn"
    assert prediction.evidence.errors == 1


def endless(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"needs": [f"{given['query']} left", f"{given['query']} right"]}


def open_ended(**changes: Any) -> Script:
    """Nothing is ever found, and everything can be split."""
    return script(
        read={"answer": None},
        expand=endless,
        rewrite=lambda given: {"rewritten": given["query"]},
        synthesize={"answer": None},
        **changes,
    )


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_depth_is_bounded_and_null_at_the_bound(run: Any, depth: int) -> None:
    prediction = run(open_ended(), budget=HopBudget(depth=depth, lm_calls=200))
    hops = prediction.evidence.hops
    assert max(h.depth for h in hops) == depth
    assert len(hops) == 2 ** (depth + 1) - 1
    assert all(h.source == "search" for h in hops)
    assert all("depth bound" in h.note for h in hops if h.depth == depth)
    assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")


@pytest.mark.parametrize("most", [0, 1, 3])
def test_splits_in_the_whole_tree_are_bounded(run: Any, most: int) -> None:
    prediction = run(open_ended(), budget=HopBudget(expansions=most, lm_calls=200))
    notes = [h.note for h in prediction.evidence.hops]
    assert sum(note.startswith("split") for note in notes) == most
    assert any("no expansions left" in note for note in notes)


def test_left_subtrees_are_finished_before_right_ones_start(run: Any) -> None:
    prediction = run(open_ended(), budget=HopBudget(depth=2, lm_calls=200))
    assert [h.refined.removeprefix(ROOT) for h in prediction.evidence.hops] == [
        "",
        " left",
        " left left",
        " left right",
        " right",
        " right left",
        " right right",
    ]


def test_every_need_tried_and_none_found_is_unanswerable(run: Any) -> None:
    told = script(read={"answer": None}, synthesize={"answer": "null"})
    prediction = run(told)
    assert (prediction.answer, prediction.stop_reason) == (None, "unanswerable")
    assert len(told.asked("synthesize", "open_needs")[0]) == 2


def test_out_of_calls_it_answers_from_what_it_has(run: Any) -> None:
    told = open_ended(final={"answer": "best guess"})
    prediction = run(told, budget=HopBudget(lm_calls=6))
    assert (prediction.answer, prediction.stop_reason) == ("best guess", "budget")
    assert prediction.usage.total.lm_calls == 6


def test_a_query_asked_before_is_not_searched_again(run: Any) -> None:
    told = script(rewrite={"rewritten": LEFT.upper()})
    prediction = run(told)
    assert prediction.evidence.queries == (ROOT, LEFT)
    repeated = prediction.evidence.hops[-1]
    assert (repeated.status, repeated.answer) == ("skipped", "Ada Quill")
    assert repeated.passages == ()


def test_an_empty_rewriting_leaves_the_query(run: Any) -> None:
    assert run(script(rewrite={"rewritten": " "})).evidence.queries == (ROOT, LEFT, RIGHT)


def test_a_reader_that_fails_everywhere_is_an_error(run: Any) -> None:
    prediction = run(script(read=None, expand=None))
    assert (prediction.answer, prediction.stop_reason) == (None, "error")


def test_a_synthesizer_that_fails_leaves_the_dependent_needs_answer(run: Any) -> None:
    prediction = run(script(synthesize=None))
    assert prediction.answer == "Tarn"
    assert prediction.evidence.errors == 1


def test_several_candidates_go_to_the_synthesizer_together(run: Any) -> None:
    told = script(
        read=lambda given: {
            "answers": {LEFT: ["Ada Quill", "Bo Reed"], FILLED: ["Tarn"]}.get(given["question"], [])
        }
    )
    prediction = run(told, budget=HopBudget(candidates=2))
    assert told.asked("synthesize", "facts")[0][0] == f"{LEFT} → Ada Quill or Bo Reed"
    assert prediction.evidence.hops[1].candidates == ("Bo Reed",)


PLAN = {"kind": "bridge", "sub_questions": [LEFT, "Where was {answer_1} born?"]}


def test_static_decomposes_once_and_fills_in_what_it_found(run: Any) -> None:
    told = script(plan=PLAN)
    prediction = run(told, "hiq_static")
    assert prediction.evidence.queries == (ROOT, LEFT, FILLED)
    assert not {"expand", "verify", "rewrite"} & set(told.inputs)
    assert max(h.depth for h in prediction.evidence.hops) == 1


def test_static_rewrites_by_lm_where_an_answer_is_missing(run: Any) -> None:
    told = script(plan=PLAN, read=reads(filled="Tarn"))
    prediction = run(told, "hiq_static")
    assert prediction.evidence.queries == (ROOT, LEFT, FILLED)
    assert len(told.inputs["rewrite"]) == 1


def test_independent_asks_each_need_as_written(run: Any) -> None:
    told = script(plan=PLAN)
    prediction = run(told, "hiq_independent")
    assert prediction.evidence.queries[2] == "Where was the answer to sub-question 1 born?"
    assert "rewrite" not in told.inputs


def test_a_plan_that_cant_be_carried_out_is_read_wider(run: Any) -> None:
    told = script(plan={"kind": "bridge", "sub_questions": ["Who is {answer_2}?", LEFT]})
    prediction = run(told, "hiq_static")
    assert prediction.evidence.hops[0].status == "not_decomposable"
    assert "does not come before" in prediction.evidence.hops[0].note


def test_always_splits_first_and_reads_what_it_cant_split(run: Any) -> None:
    told = script(read=reads(root="wrong", left="Ada Quill", filled="Tarn"))
    prediction = run(told, "hiq_always")
    assert prediction.answer == "Tarn"
    assert told.asked("read") == [LEFT, FILLED]
    assert prediction.evidence.queries == (LEFT, FILLED)


def test_unverified_never_asks_the_verifier(run: Any) -> None:
    told = script()
    assert run(told, "hiq_unverified").answer == "Tarn"
    assert "verify" not in told.inputs


def test_depth1_splits_the_root_alone(run: Any) -> None:
    prediction = run(open_ended(), "hiq_depth1")
    assert len(prediction.evidence.hops) == 3


def doubting(p: float) -> Any:
    def read(given: Mapping[str, Any]) -> dict[str, Any]:
        known = {ROOT: ("Orl", p), LEFT: ("Ada Quill", 0.0), FILLED: ("Tarn", 0.1)}
        answer, unresolved = known.get(given["question"], (None, 0.0))
        return {"answer": answer, "unresolved": unresolved}

    return read


@pytest.mark.parametrize(
    ("arguments", "p", "answer"),
    [
        ({}, 0.2, "Orl"),
        ({}, 0.3, "Tarn"),
        ({"threshold": 0.5}, 0.3, "Orl"),
        ({"expand_cost": 1.0, "fail_cost": 2.0}, 0.5, "Orl"),
        ({"threshold": 0.0}, 0.01, "Tarn"),
        ({}, float("nan"), "Tarn"),
        ({}, 7.0, "Tarn"),
    ],
)
def test_the_soft_trigger_splits_above_the_cost_ratio(
    run: Any, arguments: dict[str, float], p: float, answer: str
) -> None:
    prediction = run(script(read=doubting(p)), "hiq_threshold", **arguments)
    assert prediction.answer == answer


def test_a_doubtful_answer_is_kept_until_nothing_better_is_found(run: Any) -> None:
    told = script(read=doubting(0.9), synthesize={"answer": None})
    prediction = run(told, "hiq_threshold", threshold=0.5)
    assert prediction.answer == "Orl"
    assert not any("Orl" in fact for facts in told.asked("synthesize", "facts") for fact in facts)
    assert stated(prediction.evidence.hops[0].note) == 0.9


@pytest.mark.parametrize(
    "arguments",
    [
        {"trigger": "sometimes"},
        {"decomposition": "ternary"},
        {"threshold": 1.5},
        {"fail_cost": 0.0},
        {"verify": "no"},
        {"beam": 3},
    ],
)
def test_control_arguments_are_checked(words: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        build("hiq", words, **arguments)


def test_a_variant_is_hiq_with_other_arguments(words: Any) -> None:
    for name in VARIANTS:
        program = build(name, words)
        again = build("hiq", words, program.budget, **program.arguments)
        assert set(again.steps) == set(program.steps)
        assert fingerprint(program) != fingerprint(build("hiq", words))


def test_the_fitted_threshold_costs_least_on_its_cases() -> None:
    low = [(p, False) for p in (0.0, 0.1, 0.2, 0.55)]
    high = [(p, True) for p in (0.6, 0.8, 0.9)]
    assert 0.55 < fit_threshold(low + high, 1, 4) < 0.6
    assert fit_threshold([], 1, 4) == 0.25
    assert fit_threshold([(0.0, True)] * 3, 5, 1) >= 0.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=20),
    st.floats(0.1, 5),
    st.floats(0.1, 5),
)
def test_no_stated_probability_would_be_a_better_threshold(
    cases: list[tuple[float, bool]], expand: float, fail: float
) -> None:
    def cost(bar: float) -> float:
        return sum(expand if p > bar else fail * u for p, u in cases)

    fitted = fit_threshold(cases, expand, fail)
    assert 0 <= fitted <= 1
    others = [0.0, 1.0, cost_threshold(expand, fail), *(p for p, _ in cases)]
    assert all(cost(fitted) <= cost(other) + 1e-9 for other in others)


def test_a_noted_probability_is_read_back() -> None:
    assert stated("split; " + as_note(0.375, 0.25)) == 0.375
    assert stated("split: a | b") is None


def ceiling(name: str, bench: Benchmark, retriever: Any, noise: float = 0.0) -> float:
    questions = list(bench.questions["dev"])
    program = build(name, retriever)
    right = 0
    adapter = OracleAdapter(questions, noise)
    with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter, disable_history=True):
        for question in questions:
            right += program(question=question.question).answer == question.answer
    return right / len(questions)


def test_at_the_ceiling_each_part_of_the_loop_counts(chains: Benchmark, rare_words: Any) -> None:
    retriever = rare_words(chains)
    full = ceiling("hiq", chains, retriever)
    assert full > 0.95
    assert full > ceiling("single_shot", chains, retriever)
    assert full > ceiling("hiq_depth1", chains, retriever)
    assert full >= ceiling("hiq_static", chains, retriever)
    assert ceiling("hiq_static", chains, retriever) > ceiling("hiq_independent", chains, retriever)


def test_at_the_ceiling_no_answer_comes_without_its_evidence(
    chains: Benchmark, rare_words: Any
) -> None:
    questions = list(chains.questions["dev"])
    for name in ("hiq", "hiq_depth1", "hiq_static"):
        for k in (1, 2):
            budget = replace(methods()[name].default_budget(), passages=k)
            program = build(name, rare_words(chains), budget)
            adapter = OracleAdapter(questions)
            with dspy.context(lm=stand_in("oracle/gold"), adapter=adapter, disable_history=True):
                for question in questions:
                    prediction = program(question=question.question)
                    found = {p.id for p in prediction.evidence.passages}
                    if prediction.answer is not None:
                        assert set(question.supporting) <= found


def test_the_oracle_knows_the_texts_that_it_writes(chains: Benchmark) -> None:
    for question in chains.questions["train"]:
        waiting = [question.question]
        leaves = set()
        while waiting:
            need = need_of(question, waiting.pop())
            assert need is not None
            parts = need.halves(question.hops)
            if not parts:
                leaves |= set(need.targets)
                continue
            left, right = parts
            waiting.append(left)
            prerequisite = need_of(question, left)
            assert prerequisite is not None
            known = need.known | set(prerequisite.targets)
            dependent = need_of(question, right, prerequisite.targets[0])
            assert dependent is not None
            assert len(need.targets) > 1 or prerequisite.targets[0] not in dependent.known
            if len(need.targets) == 1:
                waiting.append(joined(question.hops, dependent.targets, known))
            else:
                waiting.append(right)
        assert leaves == set(range(len(question.hops)))
