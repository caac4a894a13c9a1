"""make_packed_cases.py OUT_FOLDER - one small matrix a format, as the quantising tools of the field lay it out.

OUT_FOLDER/NAME is a checkpoint (config.json, model.safetensors) that holds the matrix "m" and, as "m.values", what every
third of its rows decodes to, by numpy formulas that share nothing with the C code: whole arrays of unpacked integers, in the order of
operations of each tool's own dequantiser.  Wrote tests/data/packed.  Needs PyPI numpy and safetensors.

Layouts: MLX mx.quantize; AutoGPTQ and GPTQModel QuantLinear.pack; AutoAWQ WQLinear_GEMM; compressed-tensors
pack_to_int32 and pack_fp4_to_uint8; DeepSeek-V3's weight_scale_inv; ModelOpt NVFP4.
"""

import json
import pathlib
import struct
import sys

import numpy as np

ROWS, COLS = 32, 256
TYPES = {"float32": "F32", "float16": "F16", "uint32": "U32", "int32": "I32", "uint8": "U8", "int8": "I8",
         "int64": "I64", "int16": "I16"}


def save(folder, name, config, tensors, kinds={}):
    header, data, at = {}, b"", 0
    if "m.values" in tensors:
        tensors["m.values"] = tensors["m.values"][::3].astype(np.float32)
    for key, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        kind = kinds.get(key, TYPES[value.dtype.name])
        header[key] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        data, at = data + raw, at + len(raw)
    text = json.dumps(header).encode()
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(config))
    (folder / name / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32) & 0xFFFF0000
    return bits.view(np.float32), (bits >> 16).astype(np.uint16)


def pack_bits(codes, bits, axis):
    """Codes along an axis as one little-endian string of bits, in 32-bit words."""
    codes = np.moveaxis(codes, axis, -1)
    planes = (codes[..., None] >> np.arange(bits)) & 1
    flat = planes.reshape(*codes.shape[:-1], -1).astype(np.uint8)
    flat = np.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, -flat.shape[-1] % 32)])
    words = np.packbits(flat, axis=-1, bitorder="little").view("<u4")
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def spread(scales, group, axis):
    return np.repeat(scales, group, axis=axis)


def mlx(folder, rng):
    for bits, group in [(2, 32), (3, 64), (4, 64), (4, 128), (5, 32), (6, 64), (8, 64)]:
        q = rng.integers(0, 1 << bits, (ROWS, COLS))
        s, s_bits = bf16(rng.normal(size=(ROWS, COLS // group)) * 0.01)
        b, b_bits = bf16(rng.normal(size=(ROWS, COLS // group)) * 0.1)
        values = spread(s, group, 1) * q.astype(np.float32) + spread(b, group, 1)
        save(folder, f"mlx_{bits}_{group}", {"quantization": {"group_size": group, "bits": bits}},
             {"m.weight": pack_bits(q, bits, 1), "m.scales": s_bits.view(np.int16), "m.biases": b_bits.view(np.int16),
              "m.values": values}, {"m.scales": "BF16", "m.biases": "BF16"})


def gptq(folder, rng):
    for bits, group, kind in [(2, 32, "v1"), (3, 64, "v1"), (4, 128, "sym"), (4, 64, "v2"), (8, 128, "v1"),
                              (8, 64, "sym"), (4, 32, "order")]:
        n = COLS // group
        q = rng.integers(0, 1 << bits, (COLS, ROWS))
        z = rng.integers(1, 1 << bits, (n, ROWS)) if kind != "sym" else np.full((n, ROWS), 1 << (bits - 1))
        s = (rng.normal(size=(n, ROWS)) * 0.01).astype(np.float16)
        index = np.arange(COLS) // group
        if kind == "order":
            index = rng.permutation(index)
        values = (s.astype(np.float32)[index] * (q - z[index]).astype(np.float32)).T
        config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": kind == "order"}
        if kind == "v2":
            config["checkpoint_format"] = "gptq_v2"
        save(folder, f"gptq_{bits}_{group}_{kind}", {"quantization_config": config},
             {"m.qweight": pack_bits(q, bits, 0).view(np.int32), "m.scales": s,
              "m.qzeros": pack_bits(z if kind == "v2" else z - 1, bits, 1).view(np.int32),
              "m.g_idx": index.astype(np.int32), "m.values": values})


def awq(folder, rng):
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    q, z = rng.integers(0, 16, (COLS, ROWS)), rng.integers(0, 16, (COLS // 128, ROWS))
    s = (rng.normal(size=(COLS // 128, ROWS)) * 0.01).astype(np.float16)

    def pack(codes):
        runs = codes.reshape(codes.shape[0], -1, 8)[..., order].astype(np.uint32)
        return (runs << (4 * np.arange(8, dtype=np.uint32))).sum(-1).astype(np.uint32).view(np.int32)

    values = (spread(s.astype(np.float32), 128, 0) * (q - spread(z, 128, 0)).astype(np.float32)).T
    config = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
    save(folder, "awq_4_128", {"quantization_config": config},
         {"m.qweight": pack(q), "m.qzeros": pack(z), "m.scales": s, "m.values": values})


def compressed(folder, rng):
    for bits, group, kind in [(4, 128, "sym"), (4, 32, "asym"), (8, 128, "sym"), (4, COLS, "channel")]:
        n = COLS // group
        q, z = rng.integers(0, 1 << bits, (ROWS, COLS)), np.full((ROWS, n), 1 << (bits - 1))
        s, s_bits = bf16(rng.normal(size=(ROWS, n)) * 0.01)
        tensors = {"m.weight_packed": pack_bits(q, bits, 1).view(np.int32), "m.weight_scale": s_bits.view(np.int16),
                   "m.weight_shape": np.array([ROWS, COLS])}
        if kind == "asym":
            z = rng.integers(0, 1 << bits, (ROWS, n))
            tensors["m.weight_zero_point"] = pack_bits(z, bits, 0).view(np.int32)
        tensors["m.values"] = spread(s, group, 1) * (q - spread(z, group, 1)).astype(np.float32)
        config = {"quant_method": "compressed-tensors", "format": "pack-quantized",
                  "config_groups": {"group_0": {"weights": {"num_bits": bits, "group_size": group}}}}
        save(folder, f"compressed_{bits}_{group}_{kind}", {"quantization_config": config}, tensors,
             {"m.weight_scale": "BF16"})
    q = rng.integers(-128, 128, (ROWS, COLS)).astype(np.int8)
    s = rng.normal(size=(ROWS, 1)).astype(np.float32)
    save(folder, "compressed_int8", {"quantization_config": {"quant_method": "compressed-tensors",
                                                             "format": "int-quantized"}},
         {"m.weight": q, "m.weight_scale": s, "m.values": s * q.astype(np.float32)})


def e4m3(codes):
    exponent, mantissa = (codes >> 3) & 15, (codes & 7).astype(np.float32)
    value = np.where(exponent == 0, mantissa / 512, (1 + mantissa / 8) * np.exp2(exponent.astype(np.float32) - 7))
    return np.where(codes & 128, -value, value).astype(np.float32)


def random_e4m3(rng, shape):
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    return np.where((codes & 127) == 127, codes & 128, codes).astype(np.uint8)


def fp8(folder, rng):
    def block(scales, rows, cols):
        return np.repeat(np.repeat(scales, 128, 0), 128, 1)[:rows, :cols]

    rows, cols = 160, 192  # the last blocks are cut short
    codes = random_e4m3(rng, (rows, cols))
    config = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    s = np.abs(rng.normal(size=(2, 2))).astype(np.float32) * np.float32(1e-3)
    save(folder, "fp8_block", {"quantization_config": config},
         {"m.weight": codes, "m.weight_scale_inv": s, "m.values": e4m3(codes) * block(s, rows, cols)},
         {"m.weight": "F8_E4M3"})
    e = rng.integers(110, 130, (2, 2)).astype(np.uint8)
    s = np.exp2(e.astype(np.float32) - 127)
    save(folder, "fp8_block_e8m0", {"quantization_config": config},
         {"m.weight": codes, "m.weight_scale_inv": e, "m.values": e4m3(codes) * block(s, rows, cols)},
         {"m.weight": "F8_E4M3", "m.weight_scale_inv": "F8_E8M0"})
    codes = random_e4m3(rng, (ROWS, COLS))
    s = np.array(0.0123, np.float32)
    save(folder, "fp8_tensor", {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}},
         {"m.weight": codes, "m.weight_scale": s, "m.values": e4m3(codes) * s}, {"m.weight": "F8_E4M3"})
    s, s_bits = bf16(np.abs(rng.normal(size=(ROWS, 1))))
    save(folder, "fp8_channel", {"quantization_config": {"quant_method": "compressed-tensors",
                                                         "format": "float-quantized"}},
         {"m.weight": codes, "m.weight_scale": s_bits.view(np.int16), "m.values": e4m3(codes) * s},
         {"m.weight": "F8_E4M3", "m.weight_scale": "BF16"})


def nvfp4(folder, rng):
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    q = rng.integers(0, 16, (ROWS, COLS))
    packed = (q[:, 0::2] | q[:, 1::2] << 4).astype(np.uint8)
    s = random_e4m3(rng, (ROWS, COLS // 16)) & 127
    whole = np.array(0.00321, np.float32)
    values = e2m1[q] * spread(e4m3(s) * whole, 16, 1)
    save(folder, "nvfp4_modelopt", {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
         {"m.weight": packed, "m.weight_scale": s, "m.weight_scale_2": whole, "m.values": values},
         {"m.weight_scale": "F8_E4M3"})
    whole = np.array([311.5], np.float32)
    values = e2m1[q] * spread(e4m3(s) / whole, 16, 1)
    save(folder, "nvfp4_compressed", {"quantization_config": {"quant_method": "compressed-tensors",
                                                              "format": "nvfp4-pack-quantized"}},
         {"m.weight_packed": packed, "m.weight_scale": s, "m.weight_global_scale": whole, "m.values": values},
         {"m.weight_scale": "F8_E4M3"})


def main():
    folder, rng = pathlib.Path(sys.argv[1]), np.random.default_rng(7)
    for make in (mlx, gptq, awq, compressed, fp8, nvfp4):
        make(folder, rng)


if __name__ == "__main__":
    main()
