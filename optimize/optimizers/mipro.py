"""``dspy.MIPROv2``: instructions that an LM proposes, and demonstrations, combined by Bayesian
search.

DSPy's class proposes both; the search over their combinations is run here, in a study kept in a
file and with answers kept in the compile's store: its own study lives in memory and is lost with
the process. The proposer isn't shown the program's source, which overflows small windows; what a
step does, its instruction says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dspy

from optimize.optimizers import Need
from optimize.proposing import proposing
from optimize.run import write_json
from optimize.search import PromptSearch, PromptSettings
from optimize.study import lease, open_study, reap
from programs import MultiHopProgram


def need(settings: PromptSettings, train: int, dev: int, predictors: int) -> Need:
    """Sets of demonstrations, a summary of the data, instructions, then trials on dev."""
    instructions = offers(settings)
    bootstrapped = instructions * min(train, 4 * max(1, settings.max_demos))
    return Need(bootstrapped + settings.candidates * dev, 10 + instructions * predictors)


def offers(settings: PromptSettings) -> int:
    """Instructions and sets of demonstrations offered for each predictor: half as many as there
    are trials, between 2 and 10. The first is the predictor's own."""
    return max(2, min(10, (settings.candidates + 1) // 2))


def run(search: PromptSearch) -> None:
    lm = search.lms.writer(search.lms.prompt, "mipro", "--prompt-lm")
    settings = search.settings
    with proposing(search.log):
        optimizer = _Mipro(
            search,
            metric=search.objective,
            prompt_model=lm,
            task_model=dspy.settings.lm,
            teacher_settings=_teacher(search),
            max_bootstrapped_demos=settings.max_demos,
            max_labeled_demos=0,
            auto=None,
            num_candidates=offers(settings),
            num_threads=search.workers,
            max_errors=len(search.train) + 1,
            seed=settings.seed or 9,
            track_stats=False,
        )
        optimizer.compile(
            search.student(),
            trainset=list(search.train),
            valset=list(search.dev),
            num_trials=settings.candidates,
            minibatch=False,
            program_aware_proposer=False,
        )


def _teacher(search: PromptSearch) -> dict[str, Any]:
    return {} if search.lms.teacher is None else {"lm": search.lms.teacher}


class _Mipro(dspy.MIPROv2):  # type: ignore[misc]
    """MIPROv2 whose proposals are kept in a file, and whose search can be gone on with."""

    def __init__(self, search: PromptSearch, **settings: Any) -> None:
        super().__init__(**settings)
        self.search = search

    def _bootstrap_fewshot_examples(self, program: Any, *args: Any, **more: Any) -> Any:
        def propose() -> dict[str, Any]:
            sets: dict[int, list[Any]] = super(_Mipro, self)._bootstrap_fewshot_examples(
                program, *args, **more
            )
            return {"programs": [self._with(program, sets, n) for n in range(len(sets[0]))]}

        states = self._once("demonstrations", propose)["programs"]
        filled = [self._loaded(program, state).predictors() for state in states]
        return {i: [p[i].demos for p in filled] for i in range(len(program.predictors()))}

    def _with(self, program: Any, sets: dict[int, list[Any]], n: int) -> dict[str, Any]:
        """The state of the program with set ``n``, cleaned as demonstrations must be."""
        copied = program.deepcopy()
        for i, predictor in enumerate(copied.predictors()):
            predictor.demos = list(sets[i][n])
        state: dict[str, Any] = self.search.finished(copied).dump_state()
        return state

    def _loaded(self, program: Any, state: dict[str, Any]) -> Any:
        copied = program.deepcopy()
        copied.load_state(state)
        return copied

    def _propose_instructions(self, *args: Any, **more: Any) -> Any:
        def propose() -> dict[str, Any]:
            found = super(_Mipro, self)._propose_instructions(*args, **more)
            return {str(i): list(dict.fromkeys(texts)) for i, texts in found.items()}

        return {int(i): texts for i, texts in self._once("instructions", propose).items()}

    def _once(self, name: str, propose: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was proposed before a kill, else what is proposed now."""
        path = self.search.folder / f"{name}.json"
        if not path.is_file():
            self.search.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, propose())
        kept: dict[str, Any] = json.loads(path.read_text())
        return kept

    def _optimize_prompt_parameters(
        self,
        program: MultiHopProgram,
        instruction_candidates: dict[int, list[str]],
        demo_candidates: dict[int, list[Any]] | None,
        evaluate: Any,
        valset: Any,
        num_trials: int,
        minibatch: bool,
        minibatch_size: int,
        minibatch_full_eval_steps: int,
        seed: int,
    ) -> MultiHopProgram:
        import optuna

        search = self.search
        study = open_study(search.folder / "study.log", "mipro", seed, single=True)
        reap(study)
        own = {f"{i}_predictor_instruction": 0 for i in instruction_candidates}
        if demo_candidates:
            own |= {f"{i}_predictor_demos": 0 for i in demo_candidates}
        spaces = self._get_param_distributions(program, instruction_candidates, demo_candidates)
        if not study.get_trials(deepcopy=False):
            start = search.found[0][0].score
            study.add_trial(
                optuna.trial.create_trial(params=own, distributions=spaces, value=start)
            )
        self._replay(program, study, instruction_candidates, demo_candidates)
        while len(_done(study)) <= num_trials:
            trial = study.ask(spaces)
            trial.set_user_attr("lease", lease())
            try:
                candidate = self._candidate(program, instruction_candidates, demo_candidates, trial)
                same = [c.score for c, _ in search.found if c.name == _name(trial)]
                score = (
                    same[0] if same else search.score(trial.number, _name(trial), candidate).score
                )
            except BaseException:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                raise
            study.tell(trial, score)
        return search.best[1]

    def _replay(self, program: MultiHopProgram, study: Any, instructions: Any, demos: Any) -> None:
        """Trials of an earlier process: their answers are in the store."""
        import optuna

        known = {candidate.number for candidate, _ in self.search.found}
        for trial in _done(study):
            if trial.number not in known:
                fixed = optuna.trial.FixedTrial(trial.params, number=trial.number)
                candidate = self._candidate(program, instructions, demos, fixed)
                self.search.score(trial.number, _name(fixed), candidate)

    def _candidate(
        self, program: MultiHopProgram, instructions: Any, demos: Any, trial: Any
    ) -> MultiHopProgram:
        copied: MultiHopProgram = program.deepcopy()
        self._select_and_insert_instructions_and_demos(
            copied, instructions, demos, trial, {trial.number: {}}, trial.number
        )
        return self.search.finished(copied)


def _done(study: Any) -> list[Any]:
    return [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]


def _name(trial: Any) -> str:
    """Which instruction and which set of demonstrations each predictor has, in order."""
    values = trial.params
    instructions = [v for k, v in sorted(values.items()) if k.endswith("instruction")]
    demos = [v for k, v in sorted(values.items()) if k.endswith("demos")]
    return f"mipro instructions {instructions}" + (f", demonstrations {demos}" if demos else "")
