"""The view of a restoration: one record, drawn by the same script in the report file and on the page."""
