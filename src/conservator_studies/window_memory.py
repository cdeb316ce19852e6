"""Restore mixed windows with the memory: each window is a document, and the memory also has common phrases."""

from dataclasses import replace

from conservator.experts import Memory, Team
from conservator.field import Bayes
from conservator_studies.byte import Trial
from conservator_studies.restoration import Restored, join, restore_windows

WITH_MEMORY, MEMORY_ONLY = "local_bayes_memory", "memory_alone"


def restore_with_memory(trial: Trial, *, memory_only: bool) -> Restored:
    """Restore each window in one step, with the experts and the memory, or with the memory only."""
    setting, parts = trial.setting, []
    generator, meter = setting.generator(), setting.team.meter
    with meter.measure() as spent:
        for number in range(len(trial.mixed.tokens)):
            observation = setting.observation[number : number + 1]
            memory = Memory().condition(observation)
            team = Team([memory] if memory_only else [*setting.team.experts, memory], meter)
            inferred = Bayes()(team, observation, generator)
            parts.append(restore_windows(team, trial.mixed.between(number, number + 1), observation, inferred))
    return replace(join(parts), cost=spent.cost)
