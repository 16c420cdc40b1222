# SPDX-License-Identifier: Apache-2.0
"""models.py - the shapes of real models' weights, from transformers, and weights of these shapes with seeded values."""

from __future__ import annotations

from typing import Any

# As the models' config.json have them.
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3-1.7b": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "qwen3-8b": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
    },
}


def weights(model: str) -> dict[str, Any]:
    """A state_dict in bfloat16 on the current device, seeded. Tied tensors are there once."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    with torch.device("meta"):
        empty = Qwen3ForCausalLM(Qwen3Config(**CONFIGS[model]))
    torch.manual_seed(1)
    return {
        name: torch.empty(parameter.shape, dtype=torch.bfloat16, device="cuda").uniform_(-1, 1)
        for name, parameter in empty.named_parameters()
    }
