// How the kernels of a draw go through a row chunk by chunk, and where they keep what they find.
//
// Scratch memory of a row, [chunks] of each: heads, draws, likeliest, lists.

fn row_scratch() -> u32 {
    return params.chunks * (4u + TOP + LISTED);
}

// (key, token) of a chunk's greatest logit, of equals the lowest token; then the sum of exp(logit - greatest) where asked for.
fn head_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + chunk * 2u;
}

// (key of the score, token) of what is drawn in a chunk. Of a row that is searched: how many tokens the chunk lists, and the
// key of the greatest that it does not; then the mass of its tokens where asked for.
fn drawn_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + (params.chunks + chunk) * 2u;
}

// (key, token) of the chunk's likeliest.
fn top_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + params.chunks * 4u + chunk * TOP;
}

// (key, token) of what the chunk lists, in no order.
fn list_at(row: u32, chunk: u32) -> u32 {
    return row * row_scratch() + params.chunks * (4u + TOP) + chunk * LISTED;
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

// Whether top_k leaves out anything.
fn counts_tokens(row: u32) -> bool {
    return rows[row].top_k > 0u && rows[row].top_k < params.vocabulary;
}
