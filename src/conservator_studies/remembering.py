"""Mixed windows restored with a memory of the window itself, and of common phrases: each window is a document."""

from dataclasses import replace

import torch

from conservator.decoders import predict
from conservator.experts import Memory, Team
from conservator.field import Bayes
from conservator_studies.byte import Trial
from conservator_studies.restoration import Restored, judge

WITH_MEMORY, ALONE = "local_bayes_memory", "memory_alone"


def restore_remembering(trial: Trial, *, alone: bool) -> Restored:
    """Restore each window by the experts and a memory of it, or by that memory ``alone``, in one step."""
    setting, tokens, lost = trial.setting, trial.mixed.tokens, trial.setting.observation.lost
    right = torch.zeros(lost.shape, dtype=torch.bool)
    confidence, likelihood = torch.zeros(2, *lost.shape, dtype=torch.float64)
    regions, generator, meter = [], setting.generator(), setting.team.meter
    with meter.measure() as spent:
        for number in range(len(tokens)):
            observation = setting.observation[number : number + 1]
            memory = Memory().condition(observation)
            team = Team([memory] if alone else [*setting.team.experts, memory], meter)
            inferred = Bayes()(team, observation, generator)
            regions.append(inferred.regions)
            for found, log_probs in predict(team, observation.readable, observation.lost, inferred.composition):
                best, chosen = log_probs.max(dim=-1)
                truth = tokens[number, found.position]
                right[number, found.position] = chosen == truth
                confidence[number, found.position] = best.exp().double()
                likelihood[number, found.position] = log_probs.gather(-1, truth[:, None])[:, 0].double()
    field = replace(inferred, regions=torch.cat(regions))
    return judge(right, confidence, trial.mixed, lost, field, spent.cost, likelihood)
