"""Local weights: the proposed engine, and other engines on the same evidence."""

from conservator.field import Inferred
from conservator.reference import Maximum
from conservator_studies.baselines.setting import Setting


def bayes(setting: Setting) -> Inferred:
    """Exact posterior of fields on the weight grid."""
    return setting.bayes


def maximum(setting: Setting) -> Inferred:
    """Field that maximises evidence minus total variation."""
    return Maximum()(setting.team, setting.observation, setting.generator())


def ascent(setting: Setting) -> Inferred:
    """The paper's multiplicative update on composite evidence."""
    return setting.ascent(setting.smoother)
