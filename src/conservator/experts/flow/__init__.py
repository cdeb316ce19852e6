"""Flow-matching experts: the transformer of the public text models, its files, and adapters."""

from conservator.experts.flow.expert import FlowExpert, SharedBackbone
from conservator.experts.flow.folder import is_flow, load_base, load_flow, read_flow_config, save_flow
from conservator.experts.flow.network import SOURCES, FlowConfig, FlowNetwork

__all__ = [
    "SOURCES",
    "FlowConfig",
    "FlowExpert",
    "FlowNetwork",
    "SharedBackbone",
    "is_flow",
    "load_base",
    "load_flow",
    "read_flow_config",
    "save_flow",
]
