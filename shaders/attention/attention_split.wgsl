// Attention for GPUs: scores, softmax and weighted sum over a part of what a row sees (attention_splits.wgsl), a split at a time, without
// a trace in memory. A row that sees no more than SPLIT positions is done with; of any other, the parts are merged as an
// attention_parts*.wgsl says. Workgroup: one part of one unit of one row; a head is at most LANES * 4 elements.
// Grid: (parts, units, rows).

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;     // [rows, heads, stride / 4]
@group(0) @binding(7) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// Sums of PAIR heads go through workgroup memory together.

const EACH: u32 = SPLIT / LANES;      // positions of a lane
const FOURS: u32 = (HEADS + 3u) / 4u; // of heads, whose maxima and sums are taken together

var<workgroup> places: array<u32, SPLIT>;          // where the head of each position of the split lies
var<workgroup> weights: array<f32, HEADS * SPLIT>; // of each position, once the highest score is known
var<workgroup> partial: array<vec4<f32>, PAIR * LANES>; // [PAIR, LANES]

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let row = place.group.z;
    let unit = place.group.y;
    let entry = step.entries[row];
    let seen = first_seen(entry.z);
    let all = entry.z + 1u - seen;
    let each = splits_of_part(all) * SPLIT;
    let first_begin = seen + place.group.x * each;
    if (first_begin > entry.z) {
        return;
    }
    let end = min(first_begin + each, entry.z + 1u);
    let query = (row * params.heads + unit * HEADS) * params.stride4;

    let d = place.lane % params.stride4;
    let share = place.lane / params.stride4;
    let shares = LANES / params.stride4;
    var highest: array<f32, HEADS>;
    var total: array<f32, HEADS>;
    var sums: array<vec4<f32>, HEADS>;
    for (var g = 0u; g < HEADS; g++) {
        highest[g] = -3.0e38;
        total[g] = 0.0;
        sums[g] = vec4<f32>();
    }
    for (var begin = first_begin; begin < end; begin += SPLIT) {
        let count = min(SPLIT, end - begin);
        if (begin > first_begin) {
            // Nobody reads the weights of the split before any more.
            workgroupBarrier();
        }

        // Scores: a lane has positions LANES apart.
        var value_scales: array<f32, EACH>;
        var before = highest;
        for (var i = 0u; i < EACH; i++) {
            let at = place.lane + i * LANES;
            if (at < count) {
                let cached = paged(entry.x, begin + at);
                let key = head_at(cached, kv_head(unit));
                places[at] = key;
                let scales = scales_of(cached, kv_head(unit));
                value_scales[i] = scales.y;
                var products: array<f32, HEADS>;
                for (var g = 0u; g < HEADS; g++) {
                    products[g] = 0.0;
                }
                // Four keys are on their way at once.
                var d = 0u;
                for (; d + 4u <= params.stride4; d += 4u) {
                    let k = four_of_key(key, d);
                    for (var g = 0u; g < HEADS; g++) {
                        let q = query + g * params.stride4 + d;
                        products[g] += dot(k.a, queries[q]);
                        products[g] += dot(k.b, queries[q + 1u]);
                        products[g] += dot(k.c, queries[q + 2u]);
                        products[g] += dot(k.d, queries[q + 3u]);
                    }
                }
                for (; d < params.stride4; d++) {
                    let k = of_key(key, d);
                    for (var g = 0u; g < HEADS; g++) {
                        products[g] += dot(k, queries[query + g * params.stride4 + d]);
                    }
                }
                for (var g = 0u; g < HEADS; g++) {
                    var product = products[g];
                    if (SCALED) {
                        product *= scales.x;
                    }
                    let score = score_of(product);
                    weights[g * SPLIT + at] = score;
                    highest[g] = max(highest[g], score);
                }
            }
        }

        // Weights: a lane has the positions it had.
        var total_of_split: array<f32, HEADS>;
        for (var f = 0u; f < FOURS; f++) {
            let g = vec4<u32>(f * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let h = min(g, vec4<u32>(HEADS - 1u));
            let most = workgroup_max4(place, vec4<f32>(highest[h.x], highest[h.y], highest[h.z], highest[h.w]));
            highest[h.w] = most.w;
            highest[h.z] = most.z;
            highest[h.y] = most.y;
            highest[h.x] = most.x;
        }
        for (var g = 0u; g < HEADS; g++) {
            var sum = 0.0;
            for (var i = 0u; i < EACH; i++) {
                let at = place.lane + i * LANES;
                if (at < count) {
                    var weight = exp(weights[g * SPLIT + at] - highest[g]);
                    sum += weight;
                    if (SCALED) {
                        weight *= value_scales[i];
                    }
                    weights[g * SPLIT + at] = weight;
                }
            }
            total_of_split[g] = sum;
        }
        for (var f = 0u; f < FOURS; f++) {
            let g = vec4<u32>(f * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let h = min(g, vec4<u32>(HEADS - 1u));
            let sums = workgroup_sum4(place, vec4<f32>(total_of_split[h.x], total_of_split[h.y], total_of_split[h.z], total_of_split[h.w]));
            total_of_split[h.w] = sums.w;
            total_of_split[h.z] = sums.z;
            total_of_split[h.y] = sums.y;
            total_of_split[h.x] = sums.x;
        }
        // What was summed up to here weighs less by how much higher the highest score is now.
        for (var g = 0u; g < HEADS; g++) {
            let factor = exp(before[g] - highest[g]);
            total[g] = total[g] * factor + total_of_split[g];
            sums[g] *= factor;
        }
        workgroupBarrier();

        // The weighted sum of the values: lanes lie along the head first, then along the positions, four of which are on their way at once.
        if (share < shares) {
            for (var at = share; at < count; at += 4u * shares) {
                // One beyond the last is read as that and weighs nothing.
                let at_1 = min(at + shares, count - 1u);
                let at_2 = min(at + 2u * shares, count - 1u);
                let at_3 = min(at + 3u * shares, count - 1u);
                let v_0 = of_value(places[at], d);
                let v_1 = of_value(places[at_1], d);
                let v_2 = of_value(places[at_2], d);
                let v_3 = of_value(places[at_3], d);
                for (var g = 0u; g < HEADS; g++) {
                    let w = g * SPLIT;
                    sums[g] += weights[w + at] * v_0;
                    sums[g] += select(0.0, weights[w + at_1], at + shares < count) * v_1;
                    sums[g] += select(0.0, weights[w + at_2], at + 2u * shares < count) * v_2;
                    sums[g] += select(0.0, weights[w + at_3], at + 3u * shares < count) * v_3;
                }
            }
        }
    }

    let second = place.lane / params.stride4 % PAIR;
    for (var first = 0u; first < HEADS; first += PAIR) {
        for (var p = 0u; p < PAIR; p++) {
            partial[p * LANES + place.lane] = sums[min(first + p, HEADS - 1u)];
        }
        workgroupBarrier();
        let g = first + second;
        if (place.lane < PAIR * params.stride4 && g < HEADS) {
            var sum = partial[second * LANES + d];
            for (var s = 1u; s < shares; s++) {
                sum += partial[second * LANES + s * params.stride4 + d];
            }
            let last = min(first + PAIR, HEADS) - 1u;
            let whole = select(total[first], total[last], second == 1u);
            let head = row * params.heads + unit * HEADS + g;
            if (all <= SPLIT) {
                output[head * params.stride4 + d] = sum / whole;
            } else {
                let part = (head * parts_of_head() + place.group.x) * (params.stride4 + 1u);
                parts[part + d] = sum;
                if (d == 0u) {
                    let most = select(highest[first], highest[last], second == 1u);
                    parts[part + params.stride4] = vec4<f32>(most, whole, 0.0, 0.0);
                }
            }
        }
        workgroupBarrier();
    }
    if (all > SPLIT) {
        merge_last(place, all);
    }
}
