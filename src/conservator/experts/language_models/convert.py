"""Conversion of GGUF files into folders that load quickly."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model

from conservator.errors import ConservatorError
from conservator.experts.language_models.families import family_of
from conservator.experts.language_models.gguf_header import check_gguf
from conservator.experts.language_models.loading import check_loaded

# Pre-tokenizers that transformers omits, by the value of tokenizer.ggml.pre.
DIGITS = {"type": "Digits", "individual_digits": True}
EXTRA_PRETOKENIZERS: dict[str, list[dict[str, Any]]] = {"smollm": [DIGITS]}


def convert_gguf(path: Path, folder: Path) -> None:
    """Convert a GGUF file to config.json, tokenizer.json and model.safetensors in an existing folder.

    Quantised weights become float16 or bfloat16, whichever is closer.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    pre = str(check_gguf(path).get("tokenizer.ggml.pre", ""))
    source: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    try:
        with quietly():
            family_of(AutoConfig.from_pretrained(str(path.parent), **source))
            tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **source)
            tokenizer_json = json.loads(tokenizer.backend_tokenizer.to_str())
            network, loading = AutoModelForCausalLM.from_pretrained(
                str(path.parent),
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # check_loaded rejects them with an error that names the tensors
                **source,
            )
            check_loaded(loading, "download or export the file again")
    except Exception as error:  # gguf and transformers raise arbitrary exceptions for unexpected values
        reason = str(error) if isinstance(error, ConservatorError) else f"{type(error).__name__}: {error}"
        raise ConservatorError(f"cannot read {path}: {reason}") from error
    if pre in EXTRA_PRETOKENIZERS:
        steps = [*EXTRA_PRETOKENIZERS[pre], tokenizer_json["pre_tokenizer"]]
        tokenizer_json["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json, ensure_ascii=False), encoding="utf-8")
    config, dtype = network.config, nearest_half(network)
    del config.quantization_config  # the weights are no longer quantised
    config.dtype = dtype
    config.save_pretrained(folder)
    save_model(network.to(dtype), str(folder / "model.safetensors"), metadata={"format": "pt"})


def nearest_half(network: Any) -> torch.dtype:
    """Return float16 or bfloat16, whichever has the smaller squared error of the weights."""
    weights = [weight for weight in network.parameters() if weight.ndim > 1]

    def error(dtype: torch.dtype) -> float:
        return sum(float((weight - weight.to(dtype).float()).square().sum()) for weight in weights)

    with torch.inference_mode():
        return min((torch.float16, torch.bfloat16), key=error)


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
