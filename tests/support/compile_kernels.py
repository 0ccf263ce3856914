"""Compiles kernels for GPUs that are not there and prints what each takes of one, as JSON.

    python compile_kernels.py ENGINE_FOLDER '{"capabilities": [90], "shapes": {NAME: {"heads": ...}}}'

Needs triton alone: it runs in a small environment with another version, too.
"""

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
    from kernels.configurations import configurations

    rows = [
        {
            "capability": capability,
            "shape": shape,
            "kernel": name,
            **usage(compile_for(variant, capability, ELEMENTS[sizes["itemsize"]])),
        }
        for capability in request["capabilities"]
        for shape, sizes in request["shapes"].items()
        for name, variant in configurations(**sizes, capability=capability // 10).items()
    ]
    json.dump({"triton": triton.__version__, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
