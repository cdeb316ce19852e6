"""XML and HTML with byte offsets: parsing, and edits that leave all other bytes as they are."""

from conservator.pages.markup.parsing import Markup, read_html, read_xml

__all__ = ["Markup", "read_html", "read_xml"]
