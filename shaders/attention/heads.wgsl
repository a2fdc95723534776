// What is done to the heads of a row between its projection and attention, in one go: bias, norm of each query and key head,
// rotation, and keys and values into their block.

struct Params {
    heads: u32,
    kv_heads: u32,
    stride4: u32, // a head, padded, / 4; the padding of everything is zero
    half: u32,    // pairs of a head that turn: element i with element i + half; 0 turns nothing
    dim: f32,     // true width of a head
    epsilon: f32,
    bias: u32,    // 1: `extras` begins with a bias
    norms: u32,   // 1: query and key heads are normed
    places: u32,  // positions of all blocks
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(2) var<storage, read> angles: array<vec2<f32>>;        // [context, half] of (cos, sin)
@group(0) @binding(3) var<storage, read> qkv: array<f32>;                 // [rows, heads + 2 * kv_heads, stride]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<storage, read_write> queries: array<vec4<f32>>; // [rows, heads, stride / 4]
@group(0) @binding(6) var<storage, read_write> keys: array<Kv>;           // as kv_in_blocks.wgsl or kv_by_head.wgsl says
@group(0) @binding(7) var<storage, read_write> values: array<Kv>;         // as kv_in_blocks.wgsl or kv_by_head.wgsl says
// [heads + 2 * kv_heads, stride] of bias, then [stride] of query norm and [stride] of key norm; each only where it is used.
@group(0) @binding(8) var<storage, read> extras: array<f32>;

fn kv_heads() -> u32 {
    return params.kv_heads;
}

fn all_places() -> u32 {
    return params.places;
}

fn quads_of_head() -> u32 {
    return params.stride4;
}

// Element `e` of a head, with its bias.
fn biased(source: u32, head: u32, e: u32) -> f32 {
    if (params.bias == 1u) {
        return qkv[source + e] + extras[head * params.stride4 * 4u + e];
    }
    return qkv[source + e];
}

fn is_normed(head: u32) -> bool {
    return params.norms == 1u && head < params.heads + params.kv_heads;
}

// The same, normed: `scale` is one over the root of the head's mean square.
fn normed(source: u32, head: u32, e: u32, scale: f32) -> f32 {
    let x = biased(source, head, e);
    if (!is_normed(head)) {
        return x;
    }
    let stride = params.stride4 * 4u;
    let biases = select(0u, (params.heads + 2u * params.kv_heads) * stride, params.bias == 1u);
    let norm = biases + select(0u, stride, head >= params.heads);
    return x * scale * extras[norm + e];
}

// The same, turned to its position.
fn turned(source: u32, head: u32, e: u32, scale: f32, position: u32) -> f32 {
    let x = normed(source, head, e, scale);
    if (e >= 2u * params.half || head >= params.heads + params.kv_heads) {
        return x;
    }
    if (e < params.half) {
        let angle = angles[position * params.half + e];
        return x * angle.x - normed(source, head, e + params.half, scale) * angle.y;
    }
    let angle = angles[position * params.half + e - params.half];
    return x * angle.x + normed(source, head, e - params.half, scale) * angle.y;
}

// Elements 4 * e4 to 4 * e4 + 3 of a head of a row, biased, normed and turned.
fn quad_of(row: u32, head: u32, e4: u32, scale: f32) -> vec4<f32> {
    let entry = step.entries[row];
    let source = (row * (params.heads + 2u * params.kv_heads) + head) * params.stride4 * 4u;
    let e = e4 * 4u;
    return vec4<f32>(
        turned(source, head, e, scale, entry.z),
        turned(source, head, e + 1u, scale, entry.z),
        turned(source, head, e + 2u, scale, entry.z),
        turned(source, head, e + 3u, scale, entry.z),
    );
}

// Whether a head is kept with a scale.
fn is_scaled(head: u32) -> bool {
    return SCALED && head >= params.heads;
}

// Puts those of a head to where attention finds them; `greatest` is the head's greatest element by magnitude, if it is kept with a
// scale.
fn put(row: u32, head: u32, e4: u32, x: vec4<f32>, greatest: f32) {
    if (head < params.heads) {
        queries[(row * params.heads + head) * params.stride4 + e4] = x;
        return;
    }
    let entry = step.entries[row];
    let place = paged(entry.x, entry.z);
    if (head < params.heads + params.kv_heads) {
        keys[key_at(place, head - params.heads, e4)] = to_kv(x, greatest);
    } else {
        values[head_at(place, head - params.heads - params.kv_heads) + e4] = to_kv(x, greatest);
    }
}

// The same with the scale of a head that has one.
fn put_scale(row: u32, head: u32, greatest: f32) {
    let entry = step.entries[row];
    let place = paged(entry.x, entry.z);
    if (head < params.heads + params.kv_heads) {
        keys[scales_at(place, head - params.heads) + place % BLOCK] = scale_to_kv(greatest);
    } else {
        values[scales_at(place, head - params.heads - params.kv_heads) + place % BLOCK] = scale_to_kv(greatest);
    }
}
