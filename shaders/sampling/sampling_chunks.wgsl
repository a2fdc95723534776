// Logits, scratch memory and results of the kernels that go through a row chunk by chunk.

@group(0) @binding(1) var<storage, read> logits: array<vec4<u32>>;          // [samples, stride4], bits of f32
@group(0) @binding(2) var<storage, read_write> scratch: array<vec4<u32>>;   // [samples, row_scratch()]
@group(0) @binding(3) var<storage, read_write> results: array<vec2<u32>>;   // [samples] (token, log-probability), then
                                                                            // [samples, TOP] of the likeliest
// Scratch memory of a row: heads and draws of its chunks, then two halves of the search's, then the chunks' likeliest.

fn row_scratch() -> u32 {
    return params.chunks * (18u + TOP / 2u) + 4u;
}

// (key, token) of a chunk's greatest logit, of equals the lowest token; sum of exp(logit - greatest) where asked for.
fn head_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + chunk;
}

// (key of the score, token) of what is drawn in a chunk.
fn drawn_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + params.chunks + chunk;
}

// The search's state, 2 vectors.
fn state_at(row: u32, parity: u32) -> u32 {
    return row * row_scratch() + params.chunks * 2u + parity * 2u;
}

// 16 counts, then 16 masses: 8 vectors.
fn tally_at(row: u32, parity: u32, chunk: u32) -> u32 {
    return row * row_scratch() + params.chunks * 2u + 4u + (parity * params.chunks + chunk) * 8u;
}

// Two (key, token) of the chunk's likeliest in each vector.
fn top_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + params.chunks * 18u + 4u + chunk * (TOP / 2u);
}

// Keys of the four logits at `at4`; padding is impossible.
fn keys_at(row: u32, at4: u32) -> vec4<u32> {
    let found = keys(logits[row * params.stride4 + at4]);
    let tokens = vec4<u32>(at4 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<u32>(), found, tokens < vec4<u32>(params.vocabulary));
}

fn chunk_end(chunk: u32) -> u32 {
    return min((chunk + 1u) * params.chunk4, params.stride4);
}

// The greater of two (key, token); of equals the lower token.
fn greater(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let first = a.x > b.x || (a.x == b.x && a.y <= b.y);
    return select(b, a, first);
}

// `best`, or the greatest of the four keys at `at4` if that is greater.
fn greatest4(best: vec2<u32>, key: vec4<u32>, at4: u32) -> vec2<u32> {
    let most = max(max(key.x, key.y), max(key.z, key.w));
    if (most <= best.x) {
        return best;
    }
    let place = select(select(select(3u, 2u, key.z == most), 1u, key.y == most), 0u, key.x == most);
    return vec2<u32>(most, at4 * 4u + place);
}
