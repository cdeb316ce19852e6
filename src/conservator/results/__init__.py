"""The result of a restoration, and its record, which the JSON file, the report and the web page show."""

from conservator.results.edit import Edit, Gap
from conservator.results.notices import Notice
from conservator.results.record import Piece, Record
from conservator.results.renewal import Renewal, plan_renewal, renew
from conservator.results.restoration import Restoration
from conservator.results.summary import Summary

__all__ = [
    "Edit",
    "Gap",
    "Notice",
    "Piece",
    "Record",
    "Renewal",
    "Restoration",
    "Summary",
    "plan_renewal",
    "renew",
]
