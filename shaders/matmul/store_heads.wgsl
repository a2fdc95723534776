// Epilogue: the sums are heads, which get their bias and are turned to their position; queries are the output, keys and values go to
// their block. In a head that turns, elements that turn together lie beside each other in weights, queries and keys: i and i + half.

struct OfHeads {
    heads: u32,
    kv_heads: u32,
    stride4: u32, // a head, padded, / 4; the padding of everything is zero
    half: u32,    // pairs of a head that turn; 0 turns nothing
    bias: u32,    // 1: there is one
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // queries: [rows, heads, stride / 4]
@group(0) @binding(14) var<uniform> of_heads: OfHeads;
@group(0) @binding(15) var<storage, read> tables: array<u32>;            // blocks of each sequence of the step, as paged.wgsl reads them
@group(0) @binding(16) var<storage, read> angles: array<vec2<f32>>;      // [context, half] of (cos, sin)
@group(0) @binding(17) var<storage, read_write> keys: array<Kv>;         // as kv_in_blocks.wgsl says
@group(0) @binding(18) var<storage, read_write> values_of: array<Kv>;    // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(19) var<storage, read> biases: array<vec4<f32>>;      // [heads + 2 * kv_heads, stride / 4]

fn kv_heads() -> u32 {
    return of_heads.kv_heads;
}

fn quads_of_head() -> u32 {
    return of_heads.stride4;
}

// A pair of elements at its angle.
fn turn(pair: vec2<f32>, angle: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(pair.x * angle.x - pair.y * angle.y, pair.y * angle.x + pair.x * angle.y);
}

fn store(row: u32, column4: u32, sums: vec4<f32>) {
    let place = params.first + column4;
    let head = place / of_heads.stride4;
    let e4 = place % of_heads.stride4;
    let entry = step.entries[row];
    var x = sums;
    if (of_heads.bias == 1u) {
        x += biases[place];
    }
    let turns = head < of_heads.heads + of_heads.kv_heads;
    let angle = entry.z * of_heads.half + e4 * 2u;
    if (turns && e4 * 2u < of_heads.half) {
        x = vec4<f32>(turn(x.xy, angles[angle]), x.zw);
    }
    if (turns && e4 * 2u + 1u < of_heads.half) {
        x = vec4<f32>(x.xy, turn(x.zw, angles[angle + 1u]));
    }
    if (head < of_heads.heads) {
        output[(row * of_heads.heads + head) * of_heads.stride4 + e4] = x;
        return;
    }
    let kept = paged(entry.x, entry.z);
    let kv_head = (head - of_heads.heads) % of_heads.kv_heads;
    if (turns) {
        keys[key_at(kept, kv_head, e4)] = to_kv(x, 0.0);
    } else {
        values_of[head_at(kept, kv_head) + e4] = to_kv(x, 0.0);
    }
}
