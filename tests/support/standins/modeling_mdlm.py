"""A replacement for MDLM: it requires times and ignores them; the logits of its mask are not masked.

Like the public code, it is written for transformers 4 and does not call ``post_init``.
"""

import torch
from torch.nn import Linear
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

from .body import Body


class MDLMConfig(PreTrainedConfig):
    model_type = "mdlm"

    def __init__(self, vocab_size=64, model_length=32, hidden_dim=16, time_conditioning=False, **others):
        self.vocab_size, self.model_length, self.hidden_dim = vocab_size, model_length, hidden_dim
        self.time_conditioning = time_conditioning
        super().__init__(**others)


class MDLM(PreTrainedModel):
    config_class = MDLMConfig
    base_model_prefix = "mdlm"

    def __init__(self, config):
        super().__init__(config)
        self.backbone = Body(config.vocab_size, config.hidden_dim, config.model_length)
        self.output_layer = Linear(config.hidden_dim, config.vocab_size)

    def forward(self, input_ids=None, timesteps=None, output_hidden_states=None, return_dict=None):
        if not self.config.time_conditioning:
            timesteps = torch.zeros_like(timesteps)
        logits = self.output_layer(self.backbone(input_ids, timesteps))
        return MaskedLMOutput(logits=logits) if return_dict else logits
