"""Random blocks of GGUF's quantized formats and the floats that the `gguf` package makes of them.

Run: python3 -m pip install gguf==0.19.0; python3 host/weights/tests/golden/blocks.py

For each format FORMAT.bin holds BLOCKS blocks of random bytes, whose f16 scales are finite, and FORMAT.f32 their elements,
little-endian f32. `host/weights/src/format/tests.rs` asks for the same bits.
"""

import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).parent
BLOCKS = {Kind.Q8_0: 24, Kind.Q4_0: 24, Kind.Q4_K: 6, Kind.Q6_K: 6}
# Bytes of a block, and where its f16 scales stand.
LAYOUT = {Kind.Q8_0: (34, [0]), Kind.Q4_0: (18, [0]), Kind.Q4_K: (144, [0, 2]), Kind.Q6_K: (210, [208])}

random = np.random.default_rng(20261121)
for kind, count in BLOCKS.items():
    size, scales = LAYOUT[kind]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in scales:
        scale = blocks[:, at : at + 2].copy().view("<u2")
        # An exponent of all ones is infinity or no number: its lowest bit is cleared. The first block has a subnormal.
        scale[(scale & 0x7C00) == 0x7C00] &= 0xFBFF
        scale[0] &= 0x83FF
        blocks[:, at : at + 2] = scale.view(np.uint8)
    name = kind.name.lower()
    (HERE / f"{name}.bin").write_bytes(blocks.tobytes())
    floats = dequantize(blocks, kind)
    assert np.isfinite(floats).all()
    (HERE / f"{name}.f32").write_bytes(floats.astype("<f4").tobytes())
