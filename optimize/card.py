"""card.md: what an exported pipeline is, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(pipeline: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The card of a pipeline (``PipelineFile`` as a dictionary)."""
    program = pipeline["program"]
    lm = (pipeline["lms"].get("default") or {}).get("name", "none")
    lines = [
        f"# {program['method']} pipeline",
        "",
        f"Answers questions whose evidence lies in several documents, by the method "
        f"`{program['method']}`, with `{lm}`.",
        "",
        f"- fingerprint: `{pipeline['fingerprint']}`",
        f"- retriever: {pipeline['retriever'].get('engine')}, corpus "
        f"`{(pipeline['corpus_hash'] or 'unknown')[:16]}`",
        *_built(pipeline["state"]),
        "",
        "## Scores",
        "",
        *_scores(pipeline["scores"]),
        "",
        *_facts(about),
        "## Limits",
        "",
        "- Scores hold for the questions and the corpus named above, and for this LM.",
        "- An index of another encoder or engine is refused at loading; a changed corpus is "
        "warned about.",
        "- Retrieved passages are read as data; answers can still repeat what passages claim.",
        "",
        "## How to call it",
        "",
        "```",
        'hopsmith ask --pipeline EXPORT --index INDEX "…"',
        "```",
        "",
        "```python",
        "import hopsmith",
        'pipeline = hopsmith.load("EXPORT", index="INDEX")',
        'pipeline("…").answer',
        "```",
        "",
        "Index and endpoint come from arguments or from `HOPSMITH_INDEX`, `HOPSMITH_LM` and "
        "`HOPSMITH_API_BASE`.",
        "",
    ]
    return "\n".join(lines)


def _built(state: Mapping[str, Any], part: str = "") -> list[str]:
    """Budget and predictors, those of the parts below."""
    of = f" of `{part}`" if part else ""
    lines = [
        f"- budget{of}: {', '.join(f'{k}={_plain(v)}' for k, v in state['budget'].items())}",
        f"- predictors{of}: {_predictors(state)}",
    ]
    for name, below in state["parts"].items():
        lines += _built(below, f"{part}.{name}" if part else name)
    return lines


def _plain(value: Any) -> str:
    return "+".join(value) or "none" if isinstance(value, list) else str(value)


def _predictors(state: Mapping[str, Any]) -> str:
    parts = [
        f"{name} ({len(predictor['demos'])} demonstrations)"
        for name, predictor in state["predictors"].items()
    ]
    return ", ".join(parts)


def _scores(scores: Mapping[str, Any]) -> list[str]:
    """``scores[split] = {"n", "baseline": {metric: value}, "compiled": …, "difference": {metric:
    {"difference", "low", "high", "p"}}, "intervals": {metric: [low, high]}}``."""
    if not scores:
        return ["None were measured."]
    lines: list[str] = []
    for split, told in scores.items():
        ceiling = " **Ceiling: the oracle answered, not a model.**" if told.get("ceiling") else ""
        lines += [
            f"{split}: {told.get('n')} questions (`{told.get('questions_hash')}`).{ceiling}",
            "",
            "| metric | baseline | compiled [95 % interval] | difference [95 % interval] |",
            "|---|---|---|---|",
        ]
        for name in told.get("compiled", {}):
            gap = told.get("difference", {}).get(name)
            cell = (
                f"{gap['difference']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]" if gap else ""
            )
            bounds = told.get("intervals", {}).get(name)
            sure = f" [{bounds[0]:.3f}, {bounds[1]:.3f}]" if bounds else ""
            lines.append(
                f"| {name} | {_number(told.get('baseline', {}).get(name), name)} | "
                f"{_number(told['compiled'][name], name)}{sure} | {cell} |"
            )
        lines.append("")
    return lines


def _number(value: Any, name: str) -> str:
    """Money in dollars a question, down to the millionth."""
    if value is None:
        return ""
    if name == "cost":
        return f"${value:.6f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _facts(about: Mapping[str, Any]) -> list[str]:
    if not about:
        return []
    return ["## How it was made", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
