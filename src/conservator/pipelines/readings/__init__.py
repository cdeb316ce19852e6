"""Several readings of one text: their alignment, the errors of each, and the text that they have in common."""

from conservator.pipelines.readings.stage import merge_readings, select_readings

__all__ = ["merge_readings", "select_readings"]
