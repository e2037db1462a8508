"""The oracle: answers each role's signature from the gold chain, seeing only what the signature was
given. Its numbers are a *ceiling*: what a control policy and a retriever allow a perfect reader.

It is a DSPy adapter, so it sees signature and inputs as Python values and no LM is called. Which
question is under way it finds in ``dspy.context``. It resolves a sub-question only when the gold
passage is among the passages shown, and plans the gold sub-questions without their answers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.adapters.base import Adapter

import signatures
from benchmarks.needs import need_of, normal
from benchmarks.question import GoldHop, Question
from signatures.roles import EXTRA_FIELDS, field_key

SCOPE = "hopsmith_scope"
"""Key in ``dspy.settings`` under which programs keep the question under way."""


class OracleError(Exception):
    """The oracle can't answer: an unknown question, or a method that it does not serve."""

    stops_run = True
    """Read by ``programs.faults``: no retry mends it."""


@dataclass(frozen=True)
class Asked:
    """What one call was given: the question's gold, and the signature's inputs."""

    gold: Question
    inputs: Mapping[str, Any]

    @property
    def shown(self) -> frozenset[str]:
        """Ids of the passages in front of the step."""
        return frozenset(i for value in self.inputs.values() for i in getattr(value, "ids", ()))

    def chain(self) -> list[tuple[GoldHop, str]]:
        """Gold hops with their sub-questions filled in from the gold answers."""
        answers = [hop.answer for hop in self.gold.hops]
        return [(hop, hop.filled(answers) or "") for hop in self.gold.hops]

    def hop_for(self, query: str) -> GoldHop | None:
        """The gold hop that a query asks for, by its filled sub-question."""
        wanted = normal(query)
        return next((hop for hop, text in self.chain() if normal(text) == wanted), None)

    def covered(self) -> bool:
        """Whether every gold passage is in front of the step, and there is an answer at all."""
        return self.gold.answerable and set(self.gold.supporting) <= self.shown


Answerer = Callable[[Asked], dict[str, Any]]
ANSWERERS: dict[tuple[frozenset[str], frozenset[str]], Answerer] = {}
Reader = Callable[[Sequence[signatures.Triple]], dict[str, Any]]
READERS: dict[tuple[frozenset[str], frozenset[str]], Reader] = {}
"""Of signatures that are asked of a passage, with no question under way: what they answer from its
facts."""


def answers(signature: type[dspy.Signature]) -> Callable[[Answerer], Answerer]:
    """Register the answerer of a signature."""

    def keep(function: Answerer) -> Answerer:
        ANSWERERS[field_key(signature)] = function
        return function

    return keep


class OracleAdapter(Adapter):  # type: ignore[misc]
    """``--lm oracle``. ``noise`` is the probability that a step fails, drawn from a hash of (seed,
    question, predictor, query), so that a run repeats exactly and a retry fails alike."""

    def __init__(
        self,
        questions: Iterable[Question],
        noise: float = 0.0,
        seed: int = 0,
        triples: Iterable[signatures.Triple] = (),
    ) -> None:
        super().__init__()
        if not 0.0 <= noise <= 1.0:
            raise OracleError(f"oracle noise is a probability from 0 to 1, got {noise}")
        self.gold = {q.question: q for q in questions}
        self.noise = noise
        self.seed = seed
        self.facts: dict[str, list[signatures.Triple]] = {}
        """By passage: what extractors find."""
        for triple in triples:
            self.facts.setdefault(triple.passage, []).append(triple)

    @property
    def identity(self) -> dict[str, Any]:
        """For fingerprints."""
        return {"noise": self.noise, "seed": self.seed}

    def __deepcopy__(self, memo: dict[int, Any]) -> OracleAdapter:
        return self

    def __call__(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        key = field_key(signature)
        if key in READERS:
            read = [t for i in getattr(inputs["passage"], "ids", ()) for t in self.facts.get(i, ())]
            outputs = READERS[key](read)
            noisy = self.noise and self._fails("", signature, inputs)
            return [spoiled(outputs, inputs) if noisy else outputs]
        if key not in ANSWERERS:
            raise OracleError(
                f"the oracle has no answer for outputs {sorted(signature.output_fields)}: this "
                "method asks the LM for something whose gold is not known; use a real --lm"
            )
        scope = dspy.settings.get(SCOPE)
        text = str(getattr(scope, "question", ""))
        if text not in self.gold:
            raise OracleError(f"the oracle does not know the question {text!r}: give its benchmark")
        asked = Asked(self.gold[text], inputs)
        outputs = ANSWERERS[key](asked)
        if self.noise and self._fails(text, signature, inputs):
            outputs = spoiled(outputs, inputs)
        if "reasoning" in signature.output_fields:
            outputs = {"reasoning": "", **outputs}
        return [as_asked(outputs, signature)]

    def _fails(
        self, question: str, signature: type[dspy.Signature], inputs: Mapping[str, Any]
    ) -> bool:
        query = {k: str(v) for k, v in inputs.items() if k not in EXTRA_FIELDS}
        source = [str(self.seed), question, *map(str, sorted(map(sorted, field_key(signature))))]
        source += [f"{k}={v}" for k, v in sorted(query.items())]
        drawn = int.from_bytes(hashlib.sha256("\x1f".join(source).encode()).digest()[:8], "big")
        return drawn < self.noise * 2**64


def as_asked(outputs: Mapping[str, Any], signature: type[dspy.Signature]) -> dict[str, Any]:
    """Outputs, with a decision that is read with a threshold as the probability that it asks for:
    the oracle is certain."""
    asked = dict(outputs)
    for name, field in signature.output_fields.items():
        if "noul" in getattr(field.annotation, "model_fields", {}):
            asked[name] = {"noul": float(bool(outputs[name]))}
    return asked


def spoiled(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A failed step's outputs: no answer, the last sub-question dropped, the other
    verdict, the query as it was."""
    bad: dict[str, Any] = {}
    for name, value in outputs.items():
        if isinstance(value, bool):
            bad[name] = not value
        elif isinstance(value, float):
            bad[name] = 1.0 - value
        elif name == "rewritten":
            bad[name] = inputs["query"]
        elif isinstance(value, list):
            bad[name] = value[:-1] if len(value) > 1 else []
        elif name == "answer":
            bad[name] = (
                None if value is None or ("context" in inputs and "facts" not in inputs) else ""
            )
        else:
            bad[name] = value
    return bad


def final_answer(asked: Asked) -> str:
    """The gold answer when all gold passages are shown; a perfect reader says nothing else."""
    return str(asked.gold.answer) if asked.covered() else ""


@answers(signatures.Answer)
def _answer(asked: Asked) -> dict[str, Any]:
    return {"answer": final_answer(asked)}


@answers(signatures.Decompose)
def _decompose(asked: Asked) -> dict[str, Any]:
    gold = asked.gold
    if not gold.ordered:
        raise OracleError(
            "this data set has no decomposition: the oracle can't plan its questions; use musique, "
            "2wikimultihopqa or synthetic"
        )
    kind = {"comparison": "comparison", "single": "single"}.get(gold.kind, "bridge")
    return {"kind": kind, "sub_questions": [hop.question for hop in gold.hops]}


@answers(signatures.RepairPlan)
def _repair(asked: Asked) -> dict[str, Any]:
    return {"sub_questions": _decompose(asked)["sub_questions"]}


@answers(signatures.Resolve)
def resolve(asked: Asked) -> dict[str, Any]:
    query = asked.inputs["question"]
    hop = asked.hop_for(query)
    if hop is not None:
        return {"answer": hop.answer if hop.passage in asked.shown else None}
    if normal(query) == normal(asked.gold.question):
        return {"answer": asked.gold.answer if asked.covered() else None}
    need = need_of(asked.gold, query)
    if need is None or len(need.targets) > 1:
        return {"answer": None}
    wanted = {asked.gold.hops[i].passage for i in need.missing(asked.gold.hops)}
    (target,) = need.targets
    return {"answer": asked.gold.hops[target].answer if wanted <= asked.shown else None}


@answers(signatures.ResolveCandidates)
def _candidates(asked: Asked) -> dict[str, Any]:
    found = resolve(asked)["answer"]
    return {"answers": [found] if found else []}


@answers(signatures.SynthesizeFacts)
def _facts(asked: Asked) -> dict[str, Any]:
    """From facts alone: the gold answer when every gold hop's answer is among them."""
    found = {normal(a) for fact in asked.inputs["facts"] for a in _fact_answers(fact)}
    needed = [hop.answer for hop in asked.gold.hops]
    if asked.gold.answer is not None and all(a and normal(a) in found for a in needed):
        return {"answer": asked.gold.answer}
    return {"answer": ""}


@answers(signatures.SynthesizeEvidence)
def _facts_and_evidence(asked: Asked) -> dict[str, Any]:
    if asked.covered():
        return {"answer": final_answer(asked)}
    return _facts(asked)


def _fact_answers(fact: str) -> list[str]:
    _, _, answer = str(fact).rpartition("→")
    return [a.strip() for a in re.split(r" or ", answer) if a.strip()]


from benchmarks import oracle_code as _code  # noqa: E402,F401  registers its answerers
from benchmarks import oracle_graph as _graph  # noqa: E402,F401  registers its answerers
from benchmarks import oracle_guide as _guide  # noqa: E402,F401  registers its answerers
from benchmarks import oracle_papers as _papers  # noqa: E402,F401  registers its answerers
