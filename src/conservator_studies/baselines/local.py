"""Our field, and the other engines on the same evidence."""

from conservator.field import Inferred
from conservator.reference import Maximum
from conservator_studies.baselines.setting import Setting


def bayes(setting: Setting) -> Inferred:
    """The exact posterior of lattice fields."""
    return setting.bayes


def maximum(setting: Setting) -> Inferred:
    """The field that maximises evidence minus total variation."""
    return Maximum()(setting.team, setting.observation, setting.generator())


def ascent(setting: Setting) -> Inferred:
    """The paper's update, on composite evidence."""
    return setting.ascent(setting.smoother)
