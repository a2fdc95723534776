"""Weights in formats that the gguf package cannot quantize to: llama.cpp's own quantizer, as node-llama-cpp's prebuilt binaries carry
it, and q8_K by its definition."""

import ctypes
import functools
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Kind

LIBRARIES = pathlib.Path(__file__).parent / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"


class InitParams(ctypes.Structure):
    """`struct ggml_init_params`"""

    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


@functools.cache
def library() -> ctypes.CDLL:
    found = ctypes.CDLL(str(LIBRARIES / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    found.ggml_init.argtypes = [InitParams]
    found.ggml_init.restype = ctypes.c_void_p
    # Fills the tables of f16.
    found.ggml_init(InitParams(1 << 16, None, False))
    found.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    found.ggml_quantize_chunk.restype = ctypes.c_size_t
    return found


def quantize(array: np.ndarray, kind: Kind) -> np.ndarray:
    """Rows of f32 as `ggml_quantize_chunk` writes them, without an importance matrix."""
    rows, width = array.shape
    block, size = GGML_QUANT_SIZES[kind]
    assert width % block == 0
    source = np.ascontiguousarray(array, dtype=np.float32)
    blocks = np.zeros((rows, width // block * size), dtype=np.uint8)
    written = library().ggml_quantize_chunk(kind.value, source.ctypes.data, blocks.ctypes.data, 0, rows, width, None)
    assert written == blocks.nbytes
    return blocks


class QuantizeParams(ctypes.Structure):
    """`struct llama_model_quantize_params`, of which only the beginning is known here."""

    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("rest", ctypes.c_uint8 * 504)]


def quantize_file(source: pathlib.Path, target: pathlib.Path, ftype: int) -> None:
    """`llama_model_quantize`, which is all that the tool llama-quantize does; it chooses the format of each tensor."""
    library()
    ctypes.CDLL(str(LIBRARIES / "libggml.v0.5.0.so"), mode=ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(str(LIBRARIES / "libllama.v0.5.0.so"))
    llama.llama_backend_init()
    llama.llama_model_quantize_default_params.restype = QuantizeParams
    llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(QuantizeParams)]
    params = llama.llama_model_quantize_default_params()
    params.nthread, params.ftype = 1, ftype
    failed = llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    assert failed == 0


def q8_k(array: np.ndarray) -> np.ndarray:
    """`block_q8_K`: d in f32, 256 numbers, the sums of 16 of them each; the element of the greatest magnitude becomes -127."""
    rows, width = array.shape
    groups = array.astype(np.float32).reshape(rows, width // 256, 256)
    greatest = np.take_along_axis(groups, np.abs(groups).argmax(-1, keepdims=True), -1)
    assert (greatest != 0).all()
    d = greatest / np.float32(-127)
    q = np.clip(np.rint(groups / d), -128, 127).astype(np.int8)
    sums = q.reshape(rows, -1, 16, 16).astype(np.int16).sum(-1, dtype=np.int16)
    parts = [d.astype("<f4").view(np.uint8), q.view(np.uint8), sums.astype("<i2").view(np.uint8)]
    return np.concatenate(parts, -1).reshape(rows, -1)


def from_q8_k(blocks: np.ndarray) -> np.ndarray:
    """`dequantize_row_q8_K`"""
    groups = blocks.reshape(len(blocks), -1, 292)
    d = np.ascontiguousarray(groups[:, :, :4]).view("<f4")
    q = np.ascontiguousarray(groups[:, :, 4:260]).view(np.int8).astype(np.float32)
    return (d * q).reshape(len(blocks), -1)
