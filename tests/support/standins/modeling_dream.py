"""A replacement for Dream: the logits at a position are those of the token after it."""

from torch.nn import Linear
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

from .body import Body


class DreamConfig(PreTrainedConfig):
    model_type = "Dream"

    def __init__(self, vocab_size=64, hidden_size=16, max_position_embeddings=32, **others):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.max_position_embeddings = max_position_embeddings
        super().__init__(**others)


class DreamModel(PreTrainedModel):
    config_class = DreamConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.model = Body(config.vocab_size, config.hidden_size, config.max_position_embeddings)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.tokens

    def forward(self, input_ids, attention_mask="full", position_ids=None, num_logits_to_keep=0, return_dict=None):
        return MaskedLMOutput(logits=self.lm_head(self.model(input_ids)[:, -num_logits_to_keep:]))
