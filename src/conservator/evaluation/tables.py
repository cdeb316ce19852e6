"""Tables of text, for the terminal and as Markdown."""

from rich.table import Table

Lines = list[list[str]]  # the heading, then the rows; the first column names the row


def as_table(title: str, lines: Lines) -> Table:
    """Make a terminal table; columns with the paper's figures are dimmed."""
    heading, *body = lines
    table = Table(title=title, title_justify="left")
    for number, text in enumerate(heading):
        table.add_column(text, justify="right" if number else "left", style="dim" if text == "paper" else "")
    for line in body:
        table.add_row(*line)
    return table


def as_markdown(title: str, lines: Lines) -> str:
    """Make a Markdown table with its title above it."""
    heading, *body = lines
    rule = [":--", *["--:"] * (len(heading) - 1)]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in [heading, rule, *body])
