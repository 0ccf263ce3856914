"""Compiles kernels for GPUs that are not there and prints what each takes of one, as JSON.

    python compile_kernels.py ENGINE_FOLDER '{"capabilities": [90], "shapes": {NAME: {"heads": ...}}}'

Needs triton alone: it runs in a small environment with another version, too.
"""

import importlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# What the runtime would say of each argument: integers are model constants divisible by 16 (but for those of a
# batch, which are not specialised), tensors are aligned but for the metadata, which are views of one buffer.
METADATA = ("lengths", "page_starts", "pages", "first_rows", "slots")
OF_A_BATCH = ("splits", "keys_per_split")
ELEMENTS = {2: "*bf16", 4: "*fp32"}
FLOATS = ("partials", "log_totals", "cos", "signed_sin")


def argument_type(name, element):
    if name in METADATA:
        return "*i64"
    if name in FLOATS:
        return "*fp32"
    return "i32" if name.endswith("stride") or name in OF_A_BATCH else element


def configurations(
    package,
    *,
    heads,
    kv_heads,
    head_dim,
    hidden_size,
    intermediate_size,
    eps,
    qk_norm,
    page_size,
    itemsize,
    capability,
):
    """Every variant, by name, that the engine can choose for a model of that shape.

    package: the name under which engine/kernels is imported; itemsize: bytes of an element; capability: the GPU's
    major number.
    """

    def module(name):
        return importlib.import_module(f"{package}.{name}")

    decode, chunk = module("decode_attention"), module("chunk_attention")
    elementwise, softmax, rope_kv = module("elementwise"), module("online_softmax"), module("rope_kv")
    shape = (heads, kv_heads, head_dim, page_size, itemsize)
    return {
        "rms_norm": elementwise.rms_norm_variant(hidden_size, eps, add=False),
        "rms_norm, add": elementwise.rms_norm_variant(hidden_size, eps, add=True),
        "rope_kv": rope_kv.variant(heads, kv_heads, head_dim, eps if qk_norm else None),
        "silu_mul": elementwise.silu_mul_variant(intermediate_size),
        "decode_attention": decode.variant(*shape, split=False),
        "decode_attention, split": decode.variant(*shape, split=True),
        "chunk_attention": chunk.variant(*shape, capability, split=False),
        "chunk_attention, split": chunk.variant(*shape, capability, split=True),
        "split_reduction": softmax.reduction_variant(heads, head_dim),
    }


def compile_arguments(variant, element):
    """Types of all arguments, and the names of those divisible by 16."""
    kernel = variant.kernel
    signature = {n: "constexpr" if n in variant.constants else argument_type(n, element) for n in kernel.arg_names}
    if variant.constants.get("SPLIT") is False:  # `out` stands where parts would
        signature |= {"partials": element, "log_totals": element}
    unknown = (*METADATA, *OF_A_BATCH)
    return signature, [name for name, kind in signature.items() if kind != "constexpr" and name not in unknown]


def compile_for(variant, capability, element):
    signature, divisible = compile_arguments(variant, element)
    attributes = {(variant.kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    source = ASTSource(variant.kernel, signature, dict(variant.constants), attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(variant.options))


def usage(compiled):
    """Registers and local bytes of a thread, shared bytes of a program."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", text)}
    spills = len(re.findall(r"\b(?:ld|st)\.local", compiled.asm["ptx"]))
    return {
        "registers": found["REG"],
        "local": found["LOCAL"] + found["STACK"] + spills,
        "shared": compiled.metadata.shared,
        "threads": compiled.metadata.num_warps * 32,
    }


def main(engine, request):
    # As a package of its own: importing chunkfit.engine would need more than triton.
    sys.path.insert(0, engine)
    rows = [
        {
            "capability": capability,
            "shape": shape,
            "kernel": name,
            **usage(compile_for(variant, capability, ELEMENTS[sizes["itemsize"]])),
        }
        for capability in request["capabilities"]
        for shape, sizes in request["shapes"].items()
        for name, variant in configurations("kernels", **sizes, capability=capability // 10).items()
    ]
    json.dump({"triton": triton.__version__, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
