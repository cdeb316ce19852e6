"""``conservator convert``: converts pickled checkpoints to safetensors."""

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
    "Exit codes: 0 converted, 2 invalid usage, 3 the checkpoint cannot be converted (nothing was written)."
)


def convert(
    checkpoint: Annotated[
        Path, typer.Argument(help="A pickled state dict, or a wheel that contains pytorch_model.bin.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder; it must not exist.")],
    config: Annotated[
        Path | None,
        typer.Option(help="The config.json of the model (default: next to the checkpoint).", show_default=False),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Its tokenizer.json or vocab.txt (default: next to the checkpoint).", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Key of the state dict, if the file has several, such as teacher_model.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Convert a pickled checkpoint to a folder for --experts hf:FOLDER. No code in the file is run."""
    from conservator.experts.denoisers import convert_checkpoint
    from conservator.experts.language_models.loading import missing_extra_error

    try:
        folder = convert_checkpoint(checkpoint, out, config=config, tokenizer=tokenizer, key=key)
    except ImportError as error:
        raise missing_extra_error(error, "hf") from error
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    messages.print(f"wrote {folder}: {size / 1e6:.1f} MB of weights", soft_wrap=True)
