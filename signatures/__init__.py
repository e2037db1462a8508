"""Signatures: what the LM is asked, one file a role, and how passages become prompt text.
A signature's docstring is its prompt."""

from signatures.actor import Act, AnswerFromSteps
from signatures.classifier import Classify, QuestionKind
from signatures.closed_book import Recall, RecallStepByStep
from signatures.coder import AnswerFromCode, Delegate, ExploreCorpus, WriteCode
from signatures.controller import NextSearch
from signatures.conversation import StandAlone
from signatures.expander import Expand, RepairSplit
from signatures.extractor import (
    Claim,
    ExtractPropositions,
    ExtractTriples,
    Proposition,
    Statement,
    Triple,
)
from signatures.follow_up import FollowUp
from signatures.judge import JudgeAnswer
from signatures.planner import Decompose, PlanCoverage, RepairPlan
from signatures.reasoner import NextThought
from signatures.rendering import RENDERING_VERSION, Context, render, tokens
from signatures.reranker import Rerank
from signatures.resolver import Resolve, ResolveCandidates, ResolveScored
from signatures.rewriter import Rewrite
from signatures.roles import field_key, shape_hash, signature_hash
from signatures.searcher import Condense
from signatures.sufficiency import Sufficiency
from signatures.synthesizer import Answer, SynthesizeEvidence, SynthesizeFacts, SynthesizeNeeds
from signatures.verifier import VerifySplit
from signatures.walker import Edges, FollowEdges

__all__ = [
    "RENDERING_VERSION",
    "Act",
    "Answer",
    "AnswerFromCode",
    "AnswerFromSteps",
    "Claim",
    "Classify",
    "Condense",
    "Context",
    "Decompose",
    "Delegate",
    "Edges",
    "Expand",
    "ExploreCorpus",
    "ExtractPropositions",
    "ExtractTriples",
    "FollowEdges",
    "FollowUp",
    "JudgeAnswer",
    "NextSearch",
    "NextThought",
    "PlanCoverage",
    "Proposition",
    "QuestionKind",
    "Recall",
    "RecallStepByStep",
    "RepairPlan",
    "RepairSplit",
    "Rerank",
    "Resolve",
    "ResolveCandidates",
    "ResolveScored",
    "Rewrite",
    "StandAlone",
    "Statement",
    "Sufficiency",
    "SynthesizeEvidence",
    "SynthesizeFacts",
    "SynthesizeNeeds",
    "Triple",
    "VerifySplit",
    "WriteCode",
    "field_key",
    "render",
    "shape_hash",
    "signature_hash",
    "tokens",
]
