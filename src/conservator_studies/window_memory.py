"""Restore mixed windows with the memory: each window is a document, and the memory also has common phrases."""

from dataclasses import replace

import torch

from conservator.decoders import predict
from conservator.experts import Memory, Team
from conservator.field import Bayes
from conservator_studies.byte import Trial
from conservator_studies.restoration import Restored, select_positions

WITH_MEMORY, MEMORY_ONLY = "local_bayes_memory", "memory_alone"


def restore_with_memory(trial: Trial, *, memory_only: bool) -> Restored:
    """Restore each window in one step, with the experts and the memory, or with the memory only."""
    setting, tokens, lost = trial.setting, trial.mixed.tokens, trial.setting.observation.lost
    correct = torch.zeros(lost.shape, dtype=torch.bool)
    confidence, log_likelihood = torch.zeros(2, *lost.shape, dtype=torch.float64)
    regions, generator, meter = [], setting.generator(), setting.team.meter
    with meter.measure() as spent:
        for number in range(len(tokens)):
            observation = setting.observation[number : number + 1]
            memory = Memory().condition(observation)
            team = Team([memory] if memory_only else [*setting.team.experts, memory], meter)
            inferred = Bayes()(team, observation, generator)
            regions.append(inferred.regions)
            for batch, log_probs in predict(team, observation.readable, observation.lost, inferred.composition):
                best, predicted = log_probs.max(dim=-1)
                truth = tokens[number, batch.position]
                correct[number, batch.position] = predicted == truth
                confidence[number, batch.position] = best.exp().double()
                log_likelihood[number, batch.position] = log_probs.gather(-1, truth[:, None])[:, 0].double()
    field = replace(inferred, regions=torch.cat(regions))
    return select_positions(correct, confidence, trial.mixed, lost, field, spent.cost, log_likelihood)
