"""compare_mlx.py - PyPI mlx's own quantize and dequantize against the layout that make_packed_cases.py writes: the
packed words and every value must be equal.  Run by hand; needs PyPI mlx[cpu] and numpy.  (mlx 0.32.4 on CPU: equal for
2, 3, 4, 5, 6 and 8 bits, groups of 32, 64 and 128.)
"""

import sys

import mlx.core as mx
import numpy as np

sys.argv = ["", "/dev/null"]
from make_packed_cases import pack_bits, spread  # noqa: E402

rng = np.random.default_rng(3)
for bits in (2, 3, 4, 5, 6, 8):
    for group in (32, 64, 128):
        weights = mx.array(rng.normal(size=(32, 256)).astype(np.float32))
        words, scales, biases = mx.quantize(weights, group_size=group, bits=bits)
        values = np.array(mx.dequantize(words, scales, biases, group_size=group, bits=bits))
        planes = np.unpackbits(np.array(words).view(np.uint8), axis=-1, bitorder="little").reshape(32, 256, bits)
        codes = (planes.astype(int) << np.arange(bits)).sum(-1)
        ours = spread(np.array(scales), group, 1) * codes.astype(np.float32) + spread(np.array(biases), group, 1)
        assert (pack_bits(codes, bits, 1) == np.array(words)).all() and (ours == values).all(), (bits, group)
        print(bits, group, "equal")
