"""A replacement for DUO: a uniform source, with sigma as time input."""

from torch.nn import Linear
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

from .body import Body


class DUOConfig(PreTrainedConfig):
    model_type = "duo"

    def __init__(self, vocab_size=64, model_length=32, hidden_dim=16, causal=False, **others):
        self.vocab_size, self.model_length, self.hidden_dim, self.causal = vocab_size, model_length, hidden_dim, causal
        super().__init__(**others)


class DUO(PreTrainedModel):
    config_class = DUOConfig
    base_model_prefix = "duo"

    def __init__(self, config):
        super().__init__(config)
        self.backbone = Body(config.vocab_size, config.hidden_dim, config.model_length)
        self.output_layer = Linear(config.hidden_dim, config.vocab_size)

    def forward(self, input_ids=None, timesteps=None, output_hidden_states=None, return_dict=None):
        logits = self.output_layer(self.backbone(input_ids, timesteps))
        return MaskedLMOutput(logits=logits) if return_dict else logits
