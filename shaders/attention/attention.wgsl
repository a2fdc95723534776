// What the attention kernels share. HEADS neighbouring query heads, all of one key and value head, are taken together: a unit.

struct Params {
    heads: u32,    // query heads
    kv_heads: u32,
    stride4: u32,  // a head, padded, / 4
    window: u32,   // positions a row sees, its own included; all: 0xffffffff
    scale: f32,
    softcap: f32,  // 0: none
    scratch: u32,  // scores of one head at most, a multiple of GROUP; or parts of one head at most
    places: u32,   // positions of all blocks
    has_sinks: u32, // 0: none
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
    sinks: array<vec4<f32>, MOST_SINKS / 4u>, // of each head
}

@group(0) @binding(4) var<uniform> params: Params;

fn kv_heads() -> u32 {
    return params.kv_heads;
}

fn all_places() -> u32 {
    return params.places;
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

// The sum of the weights of all that a row sees, with that of the head's sink: one more score, which has no value. `head` is one of
// [rows, heads]. The highest score is that of the positions alone.
fn with_sink(total: f32, highest: f32, head: u32) -> f32 {
    if (params.has_sinks == 0u) {
        return total;
    }
    let own = head % params.heads;
    // Beyond that a sink leaves nothing of any position, and exp would soon overflow.
    return total + exp(min(params.sinks[own / 4u][own % 4u] - highest, 80.0));
}

// What softmax is taken of.
fn score_of(product: f32) -> f32 {
    return score_by(product, params.scale, params.softcap);
}

// CAPPED: whether there may be a cap.
fn score_by(product: f32, scale: f32, softcap: f32) -> f32 {
    let score = product * scale;
    if (CAPPED == 1u && softcap > 0.0) {
        // Beyond 15 tanh is 1, and the way some drivers compute it overflows far out. What is no number stays none.
        let x = score / softcap;
        return softcap * select(tanh(x), sign(x), abs(x) > 15.0);
    }
    return score;
}
