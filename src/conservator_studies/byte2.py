"""Two byte-level experts, prose and code: section "Byte-level experts"."""

from dataclasses import replace

from conservator_studies.byte import NAMES, ByteConfig, comparison_tables, prepare, region_table, restore_all, tabulate
from conservator_studies.resources import Resources
from conservator_studies.result import Findings
from conservator_studies.study import Study, Track

CONFIG = ByteConfig(windows=128, domains=("prose", "code"))
PRESETS = {"laptop": CONFIG, "paper": replace(CONFIG, particles="byte")}
TABLES = [*comparison_tables("section Byte-level experts"), region_table(CONFIG.domains)]
BASELINES = (
    *("local_bayes", "hard_label", "packllm_sim", "packllm_opt", "global", "best_single_marginal"),
    *("best_single_posterior", "demix", "demix_heldout", "hmm_heldout", "equal", "single:prose", "single:code"),
)
PAPER = {
    "local_bayes": {"accuracy_documents": 0.534, "accuracy_code": 0.577},
    "hard_label": {"accuracy_documents": 0.514},
    "packllm_sim": {"accuracy_documents": 0.508},
    "packllm_opt": {"accuracy_documents": 0.504},
    "best_single_marginal": {"accuracy_documents": 0.507},
    "best_single_posterior": {"accuracy_documents": 0.507},
    "demix": {"accuracy_documents": 0.492},
    "global": {"accuracy_documents": 0.478},
    "equal": {"accuracy_documents": 0.440, "accuracy_code": 0.410},
}


def run(config: ByteConfig, seed: int, track: Track, resources: Resources) -> Findings:
    """Restore the same windows with every baseline of the section."""
    trial = prepare(config, seed, resources)
    restorations = restore_all(trial, BASELINES, track, "byte2")
    return Findings(tabulate(restorations, trial.mixed, PAPER), {})


STUDY = Study(presets=PRESETS, tables=TABLES, labels=NAMES, run=run)
