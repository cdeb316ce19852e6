"""A replacement for LLaDA: a mask source, unshifted logits, no start token."""

from torch.nn import Linear
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .body import Body


class LLaDAConfig(PreTrainedConfig):
    model_type = "llada"

    def __init__(self, vocab_size=64, d_model=16, max_sequence_length=32, **others):
        self.vocab_size, self.d_model, self.max_sequence_length = vocab_size, d_model, max_sequence_length
        super().__init__(**others)


class LLaDAModelLM(PreTrainedModel):
    config_class = LLaDAConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.model = Body(config.vocab_size, config.d_model, config.max_sequence_length)
        self.ff_out = Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.tokens

    def get_output_embeddings(self):
        return self.ff_out

    def forward(self, input_ids, attention_mask=None, return_dict=None):
        return CausalLMOutputWithPast(logits=self.ff_out(self.model(input_ids)))
