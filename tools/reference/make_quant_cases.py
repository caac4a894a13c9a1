"""make_quant_cases.py OUT_FOLDER - blocks of every GGUF type, decoded by PyPI gguf's numpy reference.

Each OUT_FOLDER/TYPE.bin holds u32 n_blocks, the blocks, then their values as f32.  Blocks are random bytes with
finite scales, then adversarial ones: all bits clear, all bits set, scales of 0, the least denormal, the largest
half, negative ones.  Wrote tests/data/quant (gguf 0.19.0).

make_quant_cases.py --grids OUT.h writes src/tensor/quant_grids.h: the lattices of the IQ types, which are part of
the format, packed as the format's own values' indices.
"""

import pathlib
import sys

import gguf
import numpy as np
from gguf import quants

# Type: byte offsets of its halves.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "IQ2_XXS": [0], "IQ2_XS": [0],
    "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "TQ1_0": [52], "TQ2_0": [64], "F16": [0], "BF16": [],
    "IQ1_M": [], "MXFP4": [], "NVFP4": [],
}
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00]


def set_half(block, at, bits):
    block[at], block[at + 1] = bits & 255, bits >> 8


def set_iq1_m_scale(block, bits):
    for i in range(4):
        block[48 + 2 * i + 1] = (block[48 + 2 * i + 1] & 15) | ((bits >> (4 * i)) & 15) << 4


def fix(name, block, bits):
    for at in HALVES[name]:
        set_half(block, at, bits)
    if name == "IQ1_M":
        set_iq1_m_scale(block, bits)
    if name == "MXFP4":
        block[0] = bits % 250
    if name == "NVFP4":
        block[:4] = [(bits + 31 * i) % 127 for i in range(4)]
    if name == "BF16" and (block[1] & 127) == 127 and block[0] & 128:
        block[0] &= 127


def make(name, rng):
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    small = size <= 34
    n = 40 if small else 6
    blocks = rng.integers(0, 256, (n + len(EXTREMES), size), dtype=np.uint8)
    blocks[n + 4:] = 255
    blocks[n] = 0
    for i, block in enumerate(blocks):
        finite = int(rng.integers(0, 0x7C00)) | int(rng.integers(0, 2)) << 15
        fix(name, block, finite if i < n else EXTREMES[(i - n) % len(EXTREMES)])
    return blocks


def grids(path):
    names = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"]
    lines = ["/* quant_grids.h - the lattices of GGUF's IQ types, which are part of the format: written by",
             " * tools/reference/make_quant_cases.py from PyPI gguf.  One number an entry: the index of its i-th",
             " * value, in quant_iq.c's lists of values, lies at its i-th group of bits from the lowest. */",
             "#pragma once", "#include <stdint.h>", ""]
    for name in names:
        cls = getattr(quants, name)
        cls.init_grid()
        bits = (len(cls.grid_map) - 1).bit_length()
        rows = cls.grid.reshape(cls.grid_shape)
        index = {value: i for i, value in enumerate(cls.grid_map)}
        packed = [sum(index[int(v)] << (bits * i) for i, v in enumerate(row)) for row in rows]
        lines.append(f"static const uint16_t grid_{name.lower()}[{len(packed)}] = {{")
        lines += ["    " + ", ".join(f"{v}" for v in packed[i:i + 14]) + "," for i in range(0, len(packed), 14)]
        lines.append("};")
        lines.append("")
    path.write_text("\n".join(lines))


def main():
    if sys.argv[1] == "--grids":
        return grids(pathlib.Path(sys.argv[2]))
    for name in HALVES:
        rng = np.random.default_rng(sum(map(ord, name)))
        blocks = make(name, rng)
        kind = gguf.GGMLQuantizationType[name]
        with np.errstate(over="ignore", invalid="ignore"):
            values = quants.dequantize(blocks, kind).astype(np.float32)
        assert np.isfinite(values).all(), name
        raw = np.array([len(blocks)], np.uint32).tobytes() + blocks.tobytes() + values.tobytes()
        (pathlib.Path(sys.argv[1]) / f"{name}.bin").write_bytes(raw)


if __name__ == "__main__":
    main()
