"""``conservator convert``: pickled checkpoints as safetensors."""

from pathlib import Path
from typing import Annotated

import typer

from conservator.cli.console import messages
from conservator.cli.options import Quiet

EXAMPLES = (
    "Examples:\n\n"
    "  conservator convert pytorch_model.bin --out model\n\n"
    "  conservator convert checkpoint.pth --key teacher_model --config config.json --tokenizer tokenizer.json "
    "--out base\n\n"
    "  conservator convert antiberty-0.1.3-py3-none-any.whl --out antiberty\n\n"
    "Exit codes: 0 converted, 2 bad usage, 3 it cannot be converted, and nothing was written."
)


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A pickled state dict, or a wheel with a pytorch_model.bin.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write, which must not be there yet.")],
    config: Annotated[
        Path | None, typer.Option(help="Its config.json; the one beside it by default.", show_default=False)
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Its tokenizer.json or vocab.txt; the one beside it by default.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Which of several state dicts in the file, such as teacher_model.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make a folder that --experts hf:FOLDER reads of a pickled checkpoint. No code in the file is run."""
    from conservator.experts.denoisers import convert_checkpoint
    from conservator.experts.language_models.loading import missing_extra_error

    try:
        folder = convert_checkpoint(checkpoint, out, config=config, tokenizer=tokenizer, key=key)
    except ImportError as error:
        raise missing_extra_error(error, "hf") from error
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    messages.print(f"{folder}: {size / 1e6:.1f} MB of weights", soft_wrap=True)
