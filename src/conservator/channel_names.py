"""Names of channels."""

AUTO = "auto"  # detected from the document
MASK = "mask"
OCR = "ocr"
MOJIBAKE = "mojibake"
HYPHENATION = "hyphenation"
SPACES = "spaces"
CASE = "case"
TYPING = "typing"
TEXT_CHANNELS = (MOJIBAKE, HYPHENATION, SPACES, CASE, TYPING)  # channels of errors in visible text
READINGS = "readings"  # several readings of one text were merged; not an option
