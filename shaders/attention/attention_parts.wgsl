// Parts that another dispatch merges (attention_merge.wgsl).

// [rows, heads, parts_of_head(), stride / 4 + 1]: sums of a part, then its highest score and the sum of its weights.
@group(0) @binding(6) var<storage, read_write> parts: array<vec4<f32>>;

fn merge_last(lane: u32, unit: u32, number: u32, first: u32, rows: u32) {
}
