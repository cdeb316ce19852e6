"""Pretrained masked and diffusion language models as experts. Loading them needs the extra ``hf``."""

from conservator.experts.denoisers.convert import convert_checkpoint
from conservator.experts.denoisers.denoiser import Denoiser
from conservator.experts.denoisers.loading import describe_denoiser, find_denoiser, load_denoiser, size_of

__all__ = [
    "Denoiser",
    "convert_checkpoint",
    "describe_denoiser",
    "find_denoiser",
    "load_denoiser",
    "size_of",
]
