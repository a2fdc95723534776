// What the attention kernels share. HEADS neighbouring query heads, all of one key and value head, are taken together: a unit.

struct Params {
    heads: u32,    // query heads
    kv_heads: u32,
    stride4: u32,  // a head, padded, / 4
    window: u32,   // positions a row sees, its own included; all: 0xffffffff
    scale: f32,
    softcap: f32,  // 0: none
    scratch: u32,  // scores of one head at most, a multiple of GROUP; or parts of one head at most
    unused: u32,
}

@group(0) @binding(4) var<uniform> params: Params;

fn kv_heads() -> u32 {
    return params.kv_heads;
}

fn quads_of_head() -> u32 {
    return params.stride4;
}

// First position that the row at `position` sees.
fn first_seen(position: u32) -> u32 {
    return position - min(position, params.window - 1u);
}

fn kv_head(unit: u32) -> u32 {
    return unit * HEADS / (params.heads / params.kv_heads);
}

// What softmax is taken of. CAPPED: whether there may be a cap.
fn score_of(product: f32) -> f32 {
    let score = product * params.scale;
    if (CAPPED == 1u && params.softcap > 0.0) {
        // Beyond 15 tanh is 1, and the way some drivers compute it overflows far out. What is no number stays none.
        let x = score / params.softcap;
        return params.softcap * select(tanh(x), sign(x), abs(x) > 15.0);
    }
    return score;
}
