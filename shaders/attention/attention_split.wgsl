// Attention for GPUs: scores, softmax and weighted sum over SPLIT positions, without a trace in memory. A row that sees no more than
// that many is done with; of any other, the parts are merged by attention_merge.wgsl. How many there are follows from the
// row's position alone. Workgroup: one split of one unit of one row; a head is at most LANES * 4 elements.
// Grid: (splits, units, rows).

@group(0) @binding(2) var<storage, read> keys: array<Kv>;               // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;     // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read> values: array<Kv>;             // [blocks, BLOCK, kv_heads, stride / 4]
// [rows, heads, splits_of_head(), stride / 4 + 1]: sums of a split, then its highest score and the sum of its weights.
@group(0) @binding(6) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

const EACH: u32 = SPLIT / LANES; // positions of a lane

var<workgroup> places: array<u32, SPLIT>;          // where each position of the split lies
var<workgroup> weights: array<f32, HEADS * SPLIT>; // of each position, once the highest score is known
var<workgroup> partial: array<vec4<f32>, LANES>;

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let row = place.group.z;
    let unit = place.group.y;
    let entry = step.entries[row];
    let seen = first_seen(entry.z);
    let begin = seen + place.group.x * SPLIT;
    if (begin > entry.z) {
        return;
    }
    let count = min(SPLIT, entry.z + 1u - begin);
    let query = (row * params.heads + unit * HEADS) * params.stride4;

    // Scores: a lane has positions LANES apart.
    var highest: array<f32, HEADS>;
    for (var g = 0u; g < HEADS; g++) {
        highest[g] = -3.0e38;
    }
    for (var i = 0u; i < EACH; i++) {
        let at = place.lane + i * LANES;
        if (at < count) {
            let cached = paged(entry.x, begin + at) * params.kv_heads + kv_head(unit);
            places[at] = cached * params.stride4;
            var sums: array<f32, HEADS>;
            for (var g = 0u; g < HEADS; g++) {
                sums[g] = 0.0;
            }
            for (var d = 0u; d < params.stride4; d++) {
                let k = from_kv(keys[cached * params.stride4 + d]);
                for (var g = 0u; g < HEADS; g++) {
                    sums[g] += dot(k, queries[query + g * params.stride4 + d]);
                }
            }
            for (var g = 0u; g < HEADS; g++) {
                let score = score_of(sums[g]);
                weights[g * SPLIT + at] = score;
                highest[g] = max(highest[g], score);
            }
        }
    }

    // Weights: a lane has the positions it had.
    var total: array<f32, HEADS>;
    for (var g = 0u; g < HEADS; g++) {
        highest[g] = workgroup_max(place, highest[g]);
        var sum = 0.0;
        for (var i = 0u; i < EACH; i++) {
            let at = place.lane + i * LANES;
            if (at < count) {
                let weight = exp(weights[g * SPLIT + at] - highest[g]);
                weights[g * SPLIT + at] = weight;
                sum += weight;
            }
        }
        total[g] = workgroup_sum(place, sum);
    }
    workgroupBarrier();

    // The weighted sum of the values: lanes lie along the head first, then along the positions.
    let d = place.lane % params.stride4;
    let share = place.lane / params.stride4;
    let shares = LANES / params.stride4;
    var sums: array<vec4<f32>, HEADS>;
    for (var g = 0u; g < HEADS; g++) {
        sums[g] = vec4<f32>();
    }
    if (share < shares) {
        for (var at = share; at < count; at += shares) {
            let v = from_kv(values[places[at] + d]);
            for (var g = 0u; g < HEADS; g++) {
                sums[g] += weights[g * SPLIT + at] * v;
            }
        }
    }
    for (var g = 0u; g < HEADS; g++) {
        partial[place.lane] = sums[g];
        workgroupBarrier();
        if (place.lane < params.stride4) {
            var sum = partial[place.lane];
            for (var s = 1u; s < shares; s++) {
                sum += partial[s * params.stride4 + place.lane];
            }
            let head = row * params.heads + unit * HEADS + g;
            if (entry.z + 1u - seen <= SPLIT) {
                output[head * params.stride4 + place.lane] = sum / total[g];
            } else {
                let part = (head * splits_of_head() + place.group.x) * (params.stride4 + 1u);
                parts[part + place.lane] = sum;
                if (place.lane == 0u) {
                    parts[part + params.stride4] = vec4<f32>(highest[g], total[g], 0.0, 0.0);
                }
            }
        }
        workgroupBarrier();
    }
}
