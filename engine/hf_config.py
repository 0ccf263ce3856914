"""Reads the shape of a model from a Hugging Face `config.json`.

Whatever would change the work of an iteration and is not built (experts, sliding windows, biases,
quantised weights) is refused by name, never ignored. `rope_scaling` is accepted: it changes the rotation
angles, not the work. Field names and defaults: transformers, `LlamaConfig` and `MistralConfig`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from ..tables.errors import UsageError
from .config import ModelConfig

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM")

# Field -> (values under which the model is one we build, what any other value means).
_CHANGES_THE_WORK: dict[str, tuple[tuple[object, ...], str]] = {
    "num_local_experts": ((None, 0), "a mixture of experts"),
    "num_experts": ((None, 0), "a mixture of experts"),
    "n_routed_experts": ((None, 0), "a mixture of experts"),
    "sliding_window": ((None,), "sliding-window attention"),
    "quantization_config": ((None,), "quantised weights"),
    "attention_bias": ((None, False), "biases in the attention projections"),
    "mlp_bias": ((None, False), "biases in the MLP"),
    "hidden_act": ((None, "silu", "swish"), "an MLP that is not SwiGLU"),
    "partial_rotary_factor": ((None, 1, 1.0), "RoPE on a part of each head"),
}


def read(path: Path) -> ModelConfig:
    """`path` is the file or the folder that holds `config.json`.

    head_dim defaults to hidden_size / heads, kv_heads to heads. Raises UsageError naming file and field
    for a file that is absent, no JSON, lacks a field, is not a decoder or is a decoder that is not built.
    """
    file = path / "config.json" if path.is_dir() else path
    fields = _load(file)
    _require_supported(file, fields)

    heads = _size(file, fields, "num_attention_heads")
    hidden_size = _size(file, fields, "hidden_size")
    if fields.get("head_dim") is not None:
        head_dim = _size(file, fields, "head_dim")
    elif hidden_size % heads:
        _refuse(
            file,
            f"hidden_size {hidden_size} is no multiple of num_attention_heads {heads} and head_dim is missing",
            "a head_dim field, or sizes that divide",
        )
    else:
        head_dim = hidden_size // heads
    kv_heads = heads if fields.get("num_key_value_heads") is None else _size(file, fields, "num_key_value_heads")
    rope = fields.get("rope_parameters")  # where newer versions of transformers keep rope_theta
    theta = rope.get("rope_theta") if isinstance(rope, dict) and "rope_theta" in rope else None
    try:
        return ModelConfig(
            name=path.name if path.is_dir() else (path.parent.name or path.stem),
            vocab_size=_size(file, fields, "vocab_size"),
            hidden_size=hidden_size,
            layers=_size(file, fields, "num_hidden_layers"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=_size(file, fields, "intermediate_size"),
            rope_theta=theta if theta is not None else fields.get("rope_theta", 10_000.0),
            rms_norm_eps=fields.get("rms_norm_eps", 1e-6),
            context_length=_size(file, fields, "max_position_embeddings"),
            tie_embeddings=_flag(file, fields, "tie_word_embeddings"),
        )
    except UsageError as error:
        if str(error).startswith(str(file)):
            raise
        raise UsageError(f"{file}: {error}") from error


def _load(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{file}: no such file; expected a Hugging Face config.json: check the path, or use a preset name"
        ) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); expected a readable config.json") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: byte {error.start} is not UTF-8; expected a JSON text file: is this the config.json "
            "and not the weights?"
        ) from error
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{file}: line {error.lineno}, column {error.colno}: {error.msg}; expected JSON: download the "
            "file again or mend it there"
        ) from error
    except RecursionError:
        raise UsageError(f"{file}: nested too deeply to be a config.json; expected a JSON object") from None
    if not isinstance(fields, dict):
        raise UsageError(f"{file}: found a JSON {type(fields).__name__}; expected an object with the model's fields")
    return fields


def _require_supported(file: Path, fields: dict[str, Any]) -> None:
    if fields.get("is_encoder_decoder"):
        _refuse(file, "field 'is_encoder_decoder' is true: an encoder-decoder", "a decoder-only language model")
    names = fields.get("architectures")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        found = f"is {names!r}" if "architectures" in fields else f"is missing; found {_listed(fields)}"
        _refuse(file, f"field 'architectures' {found}", f"a list with one of {', '.join(ARCHITECTURES)}")
    if names[0] not in ARCHITECTURES:
        what = (
            "a decoder that this engine does not build"
            if names[0].endswith(("ForCausalLM", "LMHeadModel"))
            else "not a decoder-only language model"
        )
        _refuse(file, f"field 'architectures' is {names[0]!r}: {what}", f"one of {', '.join(ARCHITECTURES)}")
    for field, (accepted, meaning) in _CHANGES_THE_WORK.items():
        if fields.get(field) not in accepted:
            _refuse(
                file,
                f"field {field!r} is {_short(fields[field])}: {meaning}, which this engine does not build",
                f"the field absent or one of {', '.join(map(repr, accepted))}",
            )
    for kind in fields.get("layer_types") or ():
        if kind != "full_attention":
            _refuse(
                file,
                f"field 'layer_types' holds {_short(kind)}, which this engine does not build",
                "'full_attention' in every layer",
            )


def _size(file: Path, fields: dict[str, Any], field: str) -> int:
    if field not in fields:
        _refuse(file, f"field {field!r} is missing; found {_listed(fields)}", "a whole number >= 1")
    value = fields[field]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(file, f"field {field!r} is {_short(value)}", "a whole number >= 1")
    return value


def _flag(file: Path, fields: dict[str, Any], field: str) -> bool:
    value = fields.get(field, False)
    if not isinstance(value, bool):
        _refuse(file, f"field {field!r} is {_short(value)}", "true or false")
    return value


def _refuse(file: Path, found: str, expected: str) -> NoReturn:
    raise UsageError(f"{file}: {found}; expected {expected}: use a Llama-family config.json or a preset of this engine")


def _listed(fields: dict[str, Any]) -> str:
    names = sorted(fields)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) + more) or "no fields"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
