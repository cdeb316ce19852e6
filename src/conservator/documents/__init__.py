"""Documents as bytes: locate damage, damage documents for tests, compare a restoration with the original."""

from conservator.documents.compare import Comparison, compare_documents
from conservator.documents.damage import damage
from conservator.documents.damaged import (
    LOST,
    MARK,
    DamagedDocument,
    FixedText,
    GapContext,
    Pin,
    encode_fixed,
    read_damaged,
)
from conservator.documents.encoding import UTF8, InputText, encode_text, read_input, write_text
from conservator.documents.overwritten import overwritten_rate
from conservator.documents.splice import splice
from conservator.documents.symbols import GAP_SYMBOL, LOST_SYMBOL, LOST_SYMBOLS, SymbolText
from conservator.documents.texts import read_texts

__all__ = [
    "GAP_SYMBOL",
    "LOST",
    "LOST_SYMBOL",
    "LOST_SYMBOLS",
    "MARK",
    "UTF8",
    "Comparison",
    "DamagedDocument",
    "FixedText",
    "GapContext",
    "InputText",
    "Pin",
    "SymbolText",
    "compare_documents",
    "damage",
    "encode_fixed",
    "encode_text",
    "overwritten_rate",
    "read_damaged",
    "read_input",
    "read_texts",
    "splice",
    "write_text",
]
