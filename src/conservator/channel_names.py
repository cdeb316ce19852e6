"""Names of channels."""

AUTO = "auto"  # detected from the document
MASK = "mask"
OCR = "ocr"
MOJIBAKE = "mojibake"
TYPING = "typing"
TEXT_CHANNELS = (MOJIBAKE, "hyphenation", "spaces", "case", TYPING)  # channels of errors in visible text
READINGS = "readings"  # several readings of one text were merged; not an option
