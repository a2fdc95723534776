// What the attention kernels share. GROUP query heads share a key and value head (a constant).

struct Params {
    heads: u32,    // query heads
    kv_heads: u32, // heads / GROUP
    stride4: u32,  // a head, padded, / 4
    context: u32,  // positions per slot
    scale: f32,    // 1 / sqrt(head_dim)
    scores: u32,   // scores of one head: context, padded to a multiple of 4
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(4) var<uniform> params: Params;

// Where position 0 of a slot's key or value head begins in the cache, / 4.
fn cache_start(slot: u32, kv_head: u32) -> u32 {
    return (slot * params.context * params.kv_heads + kv_head) * params.stride4;
}
