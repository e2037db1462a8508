"""A program's prompts as text, and what changed between two."""

from __future__ import annotations

import difflib

from programs import MultiHopProgram
from programs.state import own_predictors


def prompt_text(program: MultiHopProgram, prefix: str = "") -> str:
    """Instructions, fields and demonstrations of every predictor, parts included, as Markdown."""
    blocks = []
    for name, predictor in own_predictors(program).items():
        signature = predictor.signature
        lines = [f"## {prefix}{name}", "", signature.instructions, ""]
        for side, fields in (("in", signature.input_fields), ("out", signature.output_fields)):
            for field, info in fields.items():
                lines.append(
                    f"- {side} `{field}`: {(info.json_schema_extra or {}).get('desc', '')}"
                )
        for number, demo in enumerate(predictor.demos, 1):
            lines += ["", f"### demonstration {number}", ""]
            lines += [f"{field}: {value}" for field, value in demo.items() if field != "augmented"]
        blocks.append("\n".join(lines))
    for name, part in program.parts.items():
        blocks.append(prompt_text(part, f"{prefix}{name}."))
    return "\n\n".join(blocks) + "\n"


def prompt_diff(before: MultiHopProgram, after: MultiHopProgram) -> str:
    """A unified diff of the two programs' prompts; empty when they are the same."""
    lines = difflib.unified_diff(
        prompt_text(before).splitlines(),
        prompt_text(after).splitlines(),
        "before",
        "after",
        lineterm="",
    )
    return "\n".join(lines)
