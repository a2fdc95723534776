// Tokens that a mask leaves out become impossible, in place. Invocation: 32 tokens of a row. Grid: (words / LANES, rows).

@group(0) @binding(1) var<storage, read> masks: array<u32>;        // [masks, vocabulary / 32]
@group(0) @binding(2) var<storage, read_write> logits: array<u32>; // [samples, stride4 * 4], bits of f32

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let word = group.x * LANES + lane;
    let words = (params.vocabulary + 31u) / 32u;
    let mask = rows[group.y].mask;
    if (mask == 0u || word >= words) {
        return;
    }
    let allowed = masks[(mask - 1u) * words + word];
    let first = group.y * params.stride4 * 4u + word * 32u;
    let count = min(32u, params.vocabulary - word * 32u);
    if (allowed == 0xffffffffu) {
        return;
    }
    for (var bit = 0u; bit < count; bit++) {
        if (((allowed >> bit) & 1u) == 0u) {
            logits[first + bit] = 0xff800000u;
        }
    }
}
