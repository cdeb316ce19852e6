"""Baselines by name. Each baseline is a function from a ``Setting`` to a ``Composed``."""

from conservator.decoders import ContextPolicy
from conservator.errors import ConservatorError
from conservator.reference import Maximum
from conservator_studies.baselines import constant, routers, shuffled
from conservator_studies.baselines.setting import Baseline, Composed, Setting, composing
from conservator_studies.baselines.single import generalist, single
from conservator_studies.baselines.uniform import UniformSetting

__all__ = ["BASELINES", "Baseline", "Composed", "Setting", "UniformSetting", "find_baseline"]

# probability: text is hidden from an expert whose mean weight is below this [LOG: in-domain-context]
IN_DOMAIN_CONTEXT = ContextPolicy(domain_threshold=0.05)

BASELINES: dict[str, Baseline] = {
    "local_bayes": composing(lambda setting: setting.bayes),
    "local_bayes_own": composing(lambda setting: setting.bayes, IN_DOMAIN_CONTEXT),
    "local_map": composing(lambda setting: Maximum()(setting.team, setting.observation, setting.generator())),
    "local_eg": composing(lambda setting: setting.ascent(setting.smoother)),
    "local_particles": composing(lambda setting: setting.algorithm_1()),
    "hard_label": composing(routers.hard_label),
    "hard_label_own": composing(routers.hard_label, IN_DOMAIN_CONTEXT),
    "packllm_sim": composing(constant.packllm_sim),
    "packllm_opt": composing(constant.packllm_opt),
    "global": composing(lambda setting: setting.shared),
    "global_particles": composing(lambda setting: setting.algorithm_1(shared=True)),
    "field_average": composing(constant.field_average),
    "best_single_marginal": composing(constant.best_single_marginal),
    "best_single_posterior": composing(constant.best_single_posterior),
    "demix": composing(lambda setting: routers.responsibilities(setting.plain_scores, setting)),
    "demix_heldout": composing(lambda setting: routers.responsibilities(setting.held_out_scores, setting)),
    "raw_loss": composing(lambda setting: routers.raw_loss(setting.plain_scores, setting)),
    "raw_loss_heldout": composing(lambda setting: routers.raw_loss(setting.held_out_scores, setting)),
    "hmm": composing(lambda setting: routers.markov(setting.plain_scores, setting)),
    "hmm_heldout": composing(lambda setting: routers.markov(setting.held_out_scores, setting)),
    "hmm_heldout_own": composing(lambda setting: routers.markov(setting.held_out_scores, setting), IN_DOMAIN_CONTEXT),
    "equal": composing(constant.equal),
    "generalist": generalist("generalist"),
    "generalist_2x": generalist("generalist_2x"),
    "generalist_3x": generalist("generalist_3x"),
    "shuffled_within": composing(shuffled.within),
    "shuffled_across": composing(shuffled.across),
}


def find_baseline(name: str) -> Baseline:
    """Return the baseline called ``name``; ``single:NAME`` uses only the domain expert NAME."""
    kind, colon, expert_name = name.partition(":")
    if kind == "single" and colon:
        return single(expert_name)
    if name not in BASELINES:
        raise ConservatorError(f"no baseline {name!r}; choose one of {', '.join(BASELINES)}, single:NAME")
    return BASELINES[name]
