"""Our field, and the other engines on the same evidence."""

from conservator.field.infer import Inferred, infer_by_ascent, infer_maximum
from conservator.studies.baselines.setting import Setting


def bayes(setting: Setting) -> Inferred:
    """The exact posterior of lattice fields."""
    return setting.bayes


def maximum(setting: Setting) -> Inferred:
    """The field that maximises evidence minus total variation."""
    return infer_maximum(setting.experts, setting.observation, setting.generator())


def ascent(setting: Setting) -> Inferred:
    """The paper's update, on composite evidence."""
    return infer_by_ascent(setting.experts, setting.observation, setting.generator(), smoother=setting.smoother)
