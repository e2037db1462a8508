"""Hi-Q: hierarchical evidence-guided query refinement. A question is split only where retrieved
evidence fails to answer it, and only as far as the corpus asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from inspect import Parameter
from typing import Any, ClassVar

import dspy

from programs.budget import HopBudget, Knob, think
from programs.errors import ProgramError
from programs.evidence import Conclusion, Evidence, Hop, normal_query
from programs.fan_out import fan_out
from programs.hiq_control import Control
from programs.plans import PlanStep, parse_plan, waves
from programs.program import MethodInfo, MultiHopProgram
from programs.queries import worded
from programs.query_tree import QueryTree
from programs.step import Step
from programs.trigger import as_note
from retrieval import Passage, Retriever
from signatures import (
    Decompose,
    Expand,
    RepairSplit,
    Resolve,
    ResolveCandidates,
    ResolveScored,
    Rewrite,
    SynthesizeNeeds,
    VerifySplit,
)

WIDER = (2, 3, 4)
"""Multiples of k over which a node that can't be split is read once more: k = 10, 15, 20 at the
default 5 (authors' code)."""


class HiQ(MultiHopProgram):
    """Hi-Q. Each node is resolved, or split into a prerequisite and a dependent, or left null.

    Resolve: rewrite with the history, retrieve k, read; a null answer is "unresolved". Expand into
    exactly two needs. Verify that left then right recover the parent; one repair at most. Left is
    settled first, with answer and evidence in the history before right is rewritten. Depth ≤
    ``depth``, splits ≤ ``expansions``, null at the bound. Synthesize at each parent.

    From the authors' code: a node that can't be split is read once more over k = 10, 15, 20.

    Decisions of ours: only a right need is rewritten (the root has no history, and a left one is
    split from a query that was rewritten already); it is rewritten from all facts so far and the
    k best passages of its left sibling's subtree. A query that was asked before takes that node's
    answer and isn't searched again. Those wider readings are 2, 3 and 4 times k, from one search.
    A verifier that fails lets the split stand; a synthesizer that fails takes the last need's
    answer. The tree is settled at the root: null there is ``unanswerable``. With the soft trigger
    an answer below the bar stays a candidate, taken when nothing better is found. A static plan is
    not verified, and in it a sub-question is rewritten by an LM only where an answer that it
    refers to is missing.
    """

    info = MethodInfo(
        "hiq",
        "Hi-Q",
        "resolve; split in two only what retrieved evidence leaves open; verify; synthesize",
    )
    defaults = {"context_passages": 20, "context_tokens": 4000}
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("passages", (3, 5, 8)),
        Knob("depth", (1, 2, 3, 4)),
        Knob("expansions", (3, 6, 12, 20)),
        Knob("candidates", (1, 3)),
        *think("resolver", "expander", "synthesizer"),
    )
    preset: ClassVar[Mapping[str, Any]] = {}
    """Where a named variant differs from ``Control``'s defaults."""

    def __init__(
        self, retriever: Retriever, budget: HopBudget | None = None, **control: Any
    ) -> None:
        """``control`` are fields of ``Control``."""
        self.control = Control(**{**self.preset, **control})
        super().__init__(retriever, budget, **asdict(self.control))
        self.reader = Step(Resolve, "resolver", fallback={"answer": None})
        self.candidate_reader = Step(ResolveCandidates, "resolver", fallback={"answers": []})
        self.rewriter = Step(Rewrite, "rewriter", fallback={"rewritten": ""})
        self.synthesizer = Step(SynthesizeNeeds, "synthesizer", fallback={"answer": None})
        if self.control.trigger == "threshold":
            fallback = {"answer": None, "unresolved": 1.0}
            self.scored_reader = Step(ResolveScored, "resolver", fallback=fallback)
        self.binary = self.control.decomposition == "binary"
        if not self.binary:
            planned = {"kind": "single", "sub_questions": []}
            self.planner = Step(Decompose, "planner", fallback=planned)
        else:
            self.expander = Step(Expand, "expander", fallback={"needs": []})
            if self.control.verify:
                sound = {"fault": "", "covers": True}
                self.verifier = Step(VerifySplit, "verifier", fallback=sound)
                self.repairer = Step(RepairSplit, "expander", fallback={"needs": []})

    @classmethod
    def takes(cls) -> dict[str, Parameter]:
        """Fields of ``Control``, with the variant's own defaults."""
        own = {n: p for n, p in super().takes().items() if p.kind is not Parameter.VAR_KEYWORD}
        fields = asdict(Control(**cls.preset))
        kind = Parameter.KEYWORD_ONLY
        return {**own, **{n: Parameter(n, kind, default=v) for n, v in fields.items()}}

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.binary else frozenset({"sub_queries"})

    def with_threshold(self, threshold: float) -> HiQ:
        """A copy with another bar of the soft trigger. Raises ``ProgramError`` when there is none,
        or when it is no probability."""
        if self.control.trigger != "threshold":
            raise ProgramError(f"{self.info.name} has no soft trigger: see hiq_threshold")
        copied: HiQ = self.deepcopy()
        copied.control = replace(self.control, threshold=threshold)
        copied.arguments = asdict(copied.control)
        return copied

    def solve(self, question: str, evidence: Evidence) -> Conclusion:
        tree = QueryTree(question, evidence)
        root = self.settle(tree, evidence.add(role="resolver", query=question))
        if root.answer is None and root.status == "error":
            return Conclusion(None, "error", root.error)
        return Conclusion(root.answer, "answered" if root.answer else "unanswerable")

    def settle(self, tree: QueryTree, node: Hop) -> Hop:
        """Resolve a node, else split it and settle both halves, left first; else leave it null."""
        bound = self.bound(tree, node)
        unread = self.control.trigger == "always" and not bound
        if not unread:
            node = self.resolve(tree, node)
            if node.answer is not None:
                return node
            if bound:
                return tree.close(tree.remark(node, bound), (), node.status)
        needs = self.expand(tree, node) if self.binary else self.plan(tree, node)
        if not needs:
            if unread:
                node = self.resolve(tree, node)
            return self.read_wider(tree, tree.now(node)) if node.answer is None else node
        tree.splits += 1
        settle = self.settle_pair if self.binary else self.settle_plan
        return self.synthesize(tree, node, settle(tree, node, needs))

    def settle_pair(self, tree: QueryTree, node: Hop, needs: Sequence[str]) -> list[Hop]:
        """Left, and then right, rewritten with what left has found."""
        left, right = needs
        first = self.child(tree, node, left, left)
        second = self.child(tree, node, right, self.rewrite(tree, right, [first]))
        return [first, second]

    def child(self, tree: QueryTree, parent: Hop, query: str, refined: str) -> Hop:
        """A need below its parent, settled, unless the same was asked before."""
        known = tree.same(refined)
        node = tree.evidence.add(role="resolver", query=query, refined=refined, parent=parent.id)
        if known is None:
            return self.settle(tree, node)
        return tree.evidence.update(
            node,
            answer=known.answer,
            candidates=known.candidates,
            status="skipped",
            note=f"asked before, as hop {known.id}",
        )

    def bound(self, tree: QueryTree, node: Hop) -> str:
        """Why this node may not be split; empty when it may."""
        if node.depth >= (self.budget.depth if self.binary else min(1, self.budget.depth)):
            return "at the depth bound"
        return "no expansions left" if tree.splits >= self.budget.expansions else ""

    def resolve(self, tree: QueryTree, node: Hop) -> Hop:
        """Retrieve k for the refined query and read."""
        (found,) = self.search([node.refined])
        tree.evidence.update(node, passages=tuple(found))
        return self.take(tree, node, self.read(node.refined, found))

    def take(self, tree: QueryTree, node: Hop, told: dict[str, Any]) -> Hop:
        """Write into a node what a reading said."""
        tree.remark(node, told.pop("note", ""), told.pop("error"))
        return tree.evidence.update(node, **told)

    def read(self, query: str, passages: Sequence[Passage]) -> dict[str, Any]:
        """What the reader makes of a hop: its answer or None, status, candidates, error, note."""
        shown = self.context(passages)
        if self.control.trigger == "threshold":
            return self.scored(self.ask(self.scored_reader, context=shown, question=query))
        limit = self.budget.candidates
        if limit > 1:
            reply = self.ask(self.candidate_reader, context=shown, question=query, limit=limit)
            return reading(worded(reply.answers)[:limit], reply.get("error"))
        reply = self.ask(self.reader, context=shown, question=query)
        return reading(worded([reply.answer]), reply.get("error"))

    def scored(self, reply: dspy.Prediction) -> dict[str, Any]:
        """A reading with P(unresolved): above the bar its answer is no more than a candidate."""
        answers = worded([reply.answer])
        stated = reply.unresolved if answers else 1.0
        doubt = min(1.0, max(0.0, float(stated))) if stated == stated else 1.0
        made = reading(answers, reply.get("error"))
        if answers:
            made["note"] = as_note(doubt, self.control.bar)
        if answers and doubt > self.control.bar:
            made.update(answer=None, status="unresolved", candidates=tuple(answers))
        return made

    def rewrite(self, tree: QueryTree, query: str, before: Sequence[Hop]) -> str:
        """The query with found entities in place of references, from all facts so far and the
        evidence of the needs before it, whether they were resolved or not."""
        seen = tree.below(*before).ranked()[: self.budget.passages]
        reply = self.ask(
            self.rewriter,
            context=self.context(seen),
            facts=tree.facts(),
            question=tree.question,
            previous="; ".join(f"{h.refined} → {h.answer or '(not found)'}" for h in before),
            query=query,
        )
        return next(iter(worded([reply.rewritten])), query)

    def expand(self, tree: QueryTree, node: Hop) -> list[str]:
        """Two needs that recover the node's query; empty when it is not decomposable."""
        reply = self.ask(self.expander, query=node.refined)
        needs, note = halves(reply.needs, node.refined), "split"
        if not needs:
            return self.whole(tree, node, "not decomposable", reply.get("error"))
        fault, error = self.fault(node.refined, needs)
        if fault:
            mended = self.ask(self.repairer, query=node.refined, split=needs, fault=fault)
            needs, note = halves(mended.needs, node.refined), f"split, repaired ({fault})"
            still, _ = self.fault(node.refined, needs) if needs else (fault, None)
            if still:
                return self.whole(
                    tree, node, f"not decomposable: not mended ({still})", mended.get("error")
                )
        tree.remark(node, f"{note}: {' | '.join(needs)}", error)
        return needs

    def fault(self, query: str, needs: list[str]) -> tuple[str, str | None]:
        """``(what is wrong with a split, the verifier's failure)``; ("", None) when it covers."""
        if not self.control.verify:
            return "", None
        reply = self.ask(self.verifier, query=query, needs=needs)
        told = " ".join(str(reply.fault or "").split())
        return ("" if reply.covers else told or "it does not cover the query"), reply.get("error")

    def plan(self, tree: QueryTree, node: Hop) -> list[str]:
        """One-shot decomposition: all sub-questions of the root, with references."""
        reply = self.ask(self.planner, question=node.refined)
        steps, fault = parse_plan(reply.sub_questions, self.budget.sub_queries)
        if len(steps) < 2:
            return self.whole(tree, node, fault or "not decomposable", reply.get("error"))
        texts = [step.text for step in steps]
        tree.remark(node, f"split: {' | '.join(texts)}", None)
        return texts

    def settle_plan(self, tree: QueryTree, node: Hop, needs: Sequence[str]) -> list[Hop]:
        """A static plan's sub-questions; those that don't wait for each other at once."""
        steps, _ = parse_plan(list(needs), len(needs))
        alone = self.control.decomposition == "independent"
        children: dict[int, Hop] = {}
        for wave in [[*range(len(steps))]] if alone else waves(steps):
            asked = {i: self.refined(tree, steps[i], children) for i in wave}
            texts = {i: steps[i].text for i in wave}
            children.update(self.resolve_each(tree, node, texts, asked))
        return [children[i] for i in sorted(children)]

    def refined(self, tree: QueryTree, step: PlanStep, children: Mapping[int, Hop]) -> str:
        """A sub-question with the answers that it refers to."""
        if self.control.decomposition == "independent":
            return step.filled({})
        refined = step.filled({i: child.answer for i, child in children.items()})
        if all(children[i].answer is not None for i in step.needs):
            return refined
        return self.rewrite(tree, refined, [children[i] for i in step.needs])

    def resolve_each(
        self, tree: QueryTree, node: Hop, texts: Mapping[int, str], asked: Mapping[int, str]
    ) -> dict[int, Hop]:
        """Leaves below a node, by their place in the plan: one batched search, read at once.
        Queries that were asked before, here or elsewhere, come last and take those answers."""
        fresh: dict[int, Hop] = {}
        for i, query in asked.items():
            if tree.same(query) is None:
                fresh[i] = tree.evidence.add(
                    role="resolver", query=texts[i], refined=query, parent=node.id
                )
        found = self.search([hop.refined for hop in fresh.values()])
        for hop, passages in zip(fresh.values(), found, strict=True):
            tree.evidence.update(hop, passages=tuple(passages))
        tasks = [
            partial(self.read, hop.refined, passages)
            for hop, passages in zip(fresh.values(), found, strict=True)
        ]
        leaves = [*fresh.values()]

        def write(place: int, told: dict[str, Any]) -> None:
            leaf = self.take(tree, leaves[place], told)
            if leaf.answer is None:
                tree.close(tree.remark(leaf, self.bound(tree, leaf)), (), leaf.status)

        fan_out(tasks, keep=write)
        return {
            i: tree.now(fresh[i]) if i in fresh else self.child(tree, node, texts[i], query)
            for i, query in asked.items()
        }

    def read_wider(self, tree: QueryTree, node: Hop) -> Hop:
        """Read a node that can't be split over more of its ranking, step by step. Each step is a
        hop with the passages that it added."""
        k = self.budget.passages
        pool = max(self.budget.retrieve, k * WIDER[-1])
        (found,) = self.retriever.search([node.refined], k * WIDER[-1], pool=pool)
        failed = node.status == "error"
        for times in WIDER:
            added = found[k * (times - 1) : k * times]
            if not added:
                break
            told = self.read(node.refined, found[: k * times])
            told["note"] = "; ".join(filter(None, (f"read over {k * times}", told.get("note"))))
            tree.evidence.add(
                role="resolver",
                query=node.query,
                refined=node.refined,
                passages=added,
                parent=node.id,
                depth=node.depth,
                source="wider",
                **told,
            )
            if told["answer"] is not None:
                return tree.close(node, (told["answer"], *told["candidates"]), "resolved")
            failed = told["status"] == "error"
        return tree.close(node, (), "error" if failed else "not_decomposable")

    def synthesize(self, tree: QueryTree, node: Hop, children: Sequence[Hop]) -> Hop:
        """A parent's answer from its subtree's evidence, all facts and the needs left open."""
        below = tree.below(node)
        ask = self.ask_final if node.parent is None else self.ask
        reply = ask(
            self.synthesizer,
            context=self.context(below.ranked()),
            facts=tree.facts(),
            open_needs=tree.unmet(children),
            question=node.refined,
        )
        error = reply.get("error")
        found = worded([reply.answer])
        if error:
            found = worded([children[-1].answer])
        node = tree.remark(node, "", error)
        if error:
            return tree.close(node, found, "error")
        repaired = "split, repaired" in node.note
        return tree.close(node, found, "repaired" if repaired else "unresolved")

    def whole(self, tree: QueryTree, node: Hop, why: str, error: str | None) -> list[str]:
        """Note that a node is not split."""
        tree.remark(node, why, error)
        return []


def reading(answers: Sequence[str], error: str | None) -> dict[str, Any]:
    """A hop's fields from the answers read."""
    status = "error" if error else "resolved" if answers else "unresolved"
    first = answers[0] if answers else None
    return {"answer": first, "candidates": tuple(answers[1:]), "status": status, "error": error}


def halves(needs: object, query: str) -> list[str]:
    """Exactly two needs, each in words and neither the query again; else none."""
    if not isinstance(needs, list) or len(needs) != 2:
        return []
    kept = worded(needs)
    same = {normal_query(need) for need in kept} | {normal_query(query)}
    return kept if len(kept) == 2 and len(same) == 3 else []
