"""Writes a tiny model with random weights, in the form of transformers and in that of llama.cpp:
`make_models.py FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 2, 128, 512
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}: {{ message['content'] "
    "}}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant: {% endif %}"
)
SPECIAL = ("<|start|>", "<|end|>")
# Each byte is a token, so that answers hold cut characters too.
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = (*SPECIAL, *BYTES, "he")
MERGES = (("h", "e"),)


def write_transformers(folder: Path) -> None:
    """The folder that `transformers serve` loads."""
    tokenizer = Tokenizer(
        models.BPE({token: index for index, token in enumerate(TOKENS)}, list(MERGES))
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1]
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def write_gguf(file: Path) -> None:
    """The file that llama.cpp loads."""
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    kinds = [
        gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in TOKENS
    ]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(7)
    for name, shape in _shapes():
        values = np.ones(shape) if len(shape) == 1 else random.normal(0, 0.3, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes() -> list[tuple[str, tuple[int, ...]]]:
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (len(TOKENS), WIDTH)),
        ("output.weight", (len(TOKENS), WIDTH)),
        ("output_norm.weight", (WIDTH,)),
    ]
    for layer in range(LAYERS):
        of_a_layer = {
            **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH)),
            **dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,)),
            **dict.fromkeys(("ffn_gate", "ffn_up"), (INNER, WIDTH)),
            "ffn_down": (WIDTH, INNER),
        }
        shapes += [(f"blk.{layer}.{name}.weight", shape) for name, shape in of_a_layer.items()]
    return shapes


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_transformers(folder / "transformers")
    write_gguf(folder / "tiny.gguf")
