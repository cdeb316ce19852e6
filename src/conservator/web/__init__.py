"""The page and its API: ``conservator serve``. Needs the extra ``web``."""
