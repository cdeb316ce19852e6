"""The web page and its JSON API: ``conservator serve``. Needs the extra ``web``."""
