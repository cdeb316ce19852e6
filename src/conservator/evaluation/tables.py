"""Tables for the terminal and in Markdown."""

from rich.table import Table

Lines = list[list[str]]  # the header, then the rows; the first column is the name of the row


def as_table(title: str, lines: Lines) -> Table:
    """Create a terminal table; columns with values of the paper are dimmed."""
    header, *body = lines
    table = Table(title=title, title_justify="left")
    for number, text in enumerate(header):
        table.add_column(text, justify="right" if number else "left", style="dim" if text == "paper" else "")
    for line in body:
        table.add_row(*line)
    return table


def as_markdown(title: str, lines: Lines) -> str:
    """Create a Markdown table below its title."""
    header, *body = lines
    rule = [":--", *["--:"] * (len(header) - 1)]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in [header, rule, *body])
