"""The exported pipeline as an MLflow model from code.

``mlflow models serve --env-manager local -m EXPORT/mlflow_model`` serves it.

Index, graph and endpoint come from ``HOPSMITH_INDEX``, ``HOPSMITH_GRAPH``, ``HOPSMITH_LM`` and
``HOPSMITH_API_BASE``.
"""

from pathlib import Path
from typing import Any

import mlflow
from mlflow.pyfunc import PythonModel


class PipelineModel(PythonModel):  # type: ignore[misc]
    """Questions in, answers with their hops out."""

    def load_context(self, context: Any) -> None:
        from hopsmith.loading import load

        self.pipeline = load(Path(context.artifacts["pipeline"]).parent)

    def predict(self, model_input: list[str]):  # type: ignore[no-untyped-def]
        """Objects, one for each question. Their type stays unsaid: it holds ``Any``, of which
        MLflow would warn at each export."""
        return [self.pipeline.plain(question) for question in model_input]


mlflow.models.set_model(PipelineModel())
