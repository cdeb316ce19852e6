"""Flow-matching experts: the transformer of the public text models, its folders, and adapters of it."""

from conservator.experts.flow.expert import Base, FlowExpert
from conservator.experts.flow.folder import is_flow, load_base, load_flow, read_flow_config, save_flow
from conservator.experts.flow.network import SOURCES, FlowConfig, FlowNetwork

__all__ = [
    "SOURCES",
    "Base",
    "FlowConfig",
    "FlowExpert",
    "FlowNetwork",
    "is_flow",
    "load_base",
    "load_flow",
    "read_flow_config",
    "save_flow",
]
