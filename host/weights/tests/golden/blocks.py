"""Blocks of GGUF's quantized formats and the floats that the `gguf` package makes of them.

Run: python3 -m pip install gguf==0.19.0; python3 host/weights/tests/golden/blocks.py

For each format FORMAT.bin holds BLOCKS blocks of random bytes, whose scales are finite, and FORMAT.f32 their elements,
little-endian f32. `host/weights/src/format/tests.rs` asks for the same bits.

`every.json` has, for each format, the SHA-256 of the elements of 1024 blocks that the test makes for itself (`every`): each byte of
a block takes each of its 256 values, in scales too, so that some of them are subnormal, infinite or no number; of elements that
are no number only that counts.

The package has no code for q8_K, which llama.cpp does not write into models: there the definition is `block_q8_K` with
`dequantize_row_q8_K` of ggml, `d * q` in f32.
"""

import hashlib
import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import quants

HERE = pathlib.Path(__file__).parent
BLOCKS = {
    Kind.Q8_0: 24,
    Kind.Q4_0: 24,
    Kind.Q4_K: 6,
    Kind.Q6_K: 6,
    Kind.Q4_1: 24,
    Kind.Q5_0: 24,
    Kind.Q5_1: 24,
    Kind.Q2_K: 6,
    Kind.Q3_K: 6,
    Kind.Q5_K: 6,
    Kind.Q8_K: 6,
    Kind.IQ4_NL: 24,
    Kind.IQ4_XS: 6,
    Kind.MXFP4: 24,
}
# Bytes of a block, and where its f16 scales stand.
LAYOUT = {
    Kind.Q8_0: (34, [0]),
    Kind.Q4_0: (18, [0]),
    Kind.Q4_K: (144, [0, 2]),
    Kind.Q6_K: (210, [208]),
    Kind.Q4_1: (20, [0, 2]),
    Kind.Q5_0: (22, [0]),
    Kind.Q5_1: (24, [0, 2]),
    Kind.Q2_K: (84, [80, 82]),
    Kind.Q3_K: (110, [108]),
    Kind.Q5_K: (176, [0, 2]),
    Kind.Q8_K: (292, []),
    Kind.IQ4_NL: (18, [0]),
    Kind.IQ4_XS: (136, [0]),
    Kind.MXFP4: (17, []),
}
EVERY = 1024


def main() -> None:
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
        if kind == Kind.Q8_K:
            scale = blocks[:, :4].copy().view("<u4")
            # Magnitudes of 2^-63 to 2^64; the first block has a subnormal.
            scale[:] = (scale & 0xBFFFFFFF) | 0x20000000
            scale[0] &= 0x807FFFFF
            blocks[:, :4] = scale.view(np.uint8)
        if kind == Kind.MXFP4:
            # Powers of two that f16 has, but for the first block, whose is subnormal in f32.
            blocks[:, 0] = 100 + blocks[:, 0] % 40
            blocks[0, 0] = 1
        name = kind.name.lower()
        (HERE / f"{name}.bin").write_bytes(blocks.tobytes())
        floats = dequantize(blocks, kind)
        assert np.isfinite(floats).all()
        (HERE / f"{name}.f32").write_bytes(floats.astype("<f4").tobytes())
    sums = {kind.name.lower(): digest(dequantize(every(LAYOUT[kind][0]), kind)) for kind in BLOCKS}
    (HERE / "every.json").write_text(json.dumps(sums, indent=1) + "\n")


def every(size: int) -> np.ndarray:
    """Byte `at` of block `block` is the lowest byte of `block · (2 · at + 1) + (block / 256) · (at² + 17 · at)`."""
    block, at = np.arange(EVERY).reshape(-1, 1), np.arange(size).reshape(1, -1)
    return ((block * (2 * at + 1) + block // 256 * (at * at + 17 * at)) & 255).astype(np.uint8)


def dequantize(blocks: np.ndarray, kind: Kind) -> np.ndarray:
    with np.errstate(all="ignore"):
        if kind == Kind.Q8_K:
            d = blocks[:, :4].copy().view("<f4")
            return d * blocks[:, 4:260].view(np.int8).astype(np.float32)
        return quants.dequantize(blocks, kind)


def digest(floats: np.ndarray) -> str:
    bits = floats.astype("<f4").view("<u4").copy()
    bits[np.isnan(floats)] = 0x7FC00000
    return hashlib.sha256(bits.tobytes()).hexdigest()


if __name__ == "__main__":
    main()
