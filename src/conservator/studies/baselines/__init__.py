"""The baselines, by the names that tables use; each takes a ``Setting`` and gives an ``Answer``."""

from conservator.decoders.predict import Reading
from conservator.errors import ConservatorError
from conservator.field.infer import infer_globally
from conservator.studies.baselines import constant, local, particles, privileged, routers, shuffled
from conservator.studies.baselines.answer import Answer, Baseline, composed
from conservator.studies.baselines.setting import Setting
from conservator.studies.baselines.single import generalist, single

__all__ = ["BASELINES", "Answer", "Baseline", "Setting", "find_baseline"]

OWN = Reading(own_context=0.05)

BASELINES: dict[str, Baseline] = {
    "local_bayes": composed(local.bayes),
    "local_bayes_own": composed(local.bayes, OWN),
    "local_map": composed(local.maximum),
    "local_eg": composed(local.ascent),
    "local_particles": composed(particles.local),
    "hard_label": composed(privileged.hard_label),
    "hard_label_own": composed(privileged.hard_label, OWN),
    "packllm_sim": composed(constant.packllm_sim),
    "packllm_opt": composed(constant.packllm_opt),
    "global": composed(lambda setting: infer_globally(setting.experts, setting.observation, setting.generator())),
    "global_particles": composed(particles.shared),
    "field_average": composed(constant.field_average),
    "best_single_marginal": composed(constant.best_single_marginal),
    "best_single_posterior": composed(constant.best_single_posterior),
    "demix": composed(lambda setting: routers.responsibilities(setting.plain_scores, setting)),
    "demix_heldout": composed(lambda setting: routers.responsibilities(setting.held_out_scores, setting)),
    "raw_loss": composed(lambda setting: routers.raw_loss(setting.plain_scores, setting)),
    "raw_loss_heldout": composed(lambda setting: routers.raw_loss(setting.held_out_scores, setting)),
    "hmm": composed(lambda setting: routers.markov(setting.plain_scores, setting)),
    "hmm_heldout": composed(lambda setting: routers.markov(setting.held_out_scores, setting)),
    "hmm_heldout_own": composed(lambda setting: routers.markov(setting.held_out_scores, setting), OWN),
    "equal": composed(constant.equal),
    "generalist": generalist("generalist"),
    "generalist_3x": generalist("generalist_3x"),
    "shuffled_within": composed(shuffled.within),
    "shuffled_across": composed(shuffled.across),
}


def find_baseline(name: str) -> Baseline:
    """The baseline of that name; ``single:NAME`` is the domain expert NAME alone."""
    kind, colon, which = name.partition(":")
    if kind == "single" and colon:
        return single(which)
    if name not in BASELINES:
        raise ConservatorError(f"no baseline {name!r}; known: {', '.join(BASELINES)}, single:NAME")
    return BASELINES[name]
