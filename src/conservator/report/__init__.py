"""The report: the record of a restoration as an HTML file, and the script that draws it."""

from conservator.report.page import as_frame, as_page

__all__ = ["as_frame", "as_page"]
