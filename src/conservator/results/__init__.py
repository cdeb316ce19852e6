"""The result of a restoration, and its record, which the JSON file, the report and the web page show."""

from conservator.results.changes import ChangeSummary, list_changes, summarize_changes
from conservator.results.coverage import byte_odds, find_mostly_lost, scale_odds
from conservator.results.notices import Notice, lost_characters_notice, mostly_lost_notice
from conservator.results.record import Record, as_json, as_record
from conservator.results.renewal import Renewal, plan_renewal, renew
from conservator.results.restoration import Restoration, Span, Summary, find_unfilled

__all__ = [
    "ChangeSummary",
    "Notice",
    "Record",
    "Renewal",
    "Restoration",
    "Span",
    "Summary",
    "as_json",
    "as_record",
    "byte_odds",
    "find_mostly_lost",
    "find_unfilled",
    "list_changes",
    "lost_characters_notice",
    "mostly_lost_notice",
    "plan_renewal",
    "renew",
    "scale_odds",
    "summarize_changes",
]
