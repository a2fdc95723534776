// Attention for GPUs: scores, softmax and weighted sum over a part of what a row sees (attention_splits.wgsl), a split at a time, without
// a trace in memory. A row that sees one part is done with; of any other, the parts are merged as an attention_parts*.wgsl says.
// Workgroup: one part of one unit of one row; a head is at most LANES * 4 elements.
// Grid: (parts, units, rows that are taken alone).
//
// The host says which rows are taken alone, after the rows themselves: [alone] of (row, 0, 0, 0).

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;     // [rows, heads, stride / 4]
@group(0) @binding(7) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// Sums of PAIR heads go through workgroup memory together.

const ROWS: u32 = 1u;
const FOURS: u32 = (HEADS + 3u) / 4u;            // of heads, whose maxima are taken together
const ROUNDS: u32 = (HEADS + PAIR - 1u) / PAIR;  // of heads, whose sums are
const PITCH: u32 = LANES + 8u;                   // of weights, so that those who add up eighths meet no bank twice

var<workgroup> places: array<u32, LANES>;          // where the value of each position of the split lies
var<workgroup> weights: array<f32, HEADS * PITCH>; // of each position, once the highest score is known
var<workgroup> scales: array<f32, LANES>;          // of its value
var<workgroup> partial: array<vec4<f32>, PAIR * LANES>; // [PAIR, LANES]
var<workgroup> totals: array<f32, HEADS * 8u>;     // [HEADS, 8]

// A lane has a position of the split, SPLIT being LANES.

@compute @workgroup_size(LANES)
fn main(place: Place) {
    let row = step.entries[step.rows + place.group.z].x;
    let unit = place.group.y;
    let entry = step.entries[row];
    let seen = first_seen(entry.z);
    let size = part_of(entry.z);
    let number = first_part(entry.z) + place.group.x;
    if (number * size > entry.z) {
        return;
    }
    let first_begin = max(number * size, seen / SPLIT * SPLIT);
    let end = min((number + 1u) * size, entry.z + 1u);
    let query = (row * params.heads + unit * HEADS) * params.stride4;

    let share = share_size();
    let own_share = place.lane / share;
    let shares = LANES / share;
    let d = place.lane % share;
    var highest: array<f32, HEADS>;
    var sums: array<vec4<f32>, ROUNDS>; // up to here, of the heads that the lane adds up
    for (var g = 0u; g < HEADS; g++) {
        highest[g] = -3.0e38;
    }
    for (var round = 0u; round < ROUNDS; round++) {
        sums[round] = vec4<f32>();
    }
    var total = 0.0; // of head lane / 8, every eighth position
    for (var begin = first_begin; begin < end; begin += SPLIT) {
        let low = max(begin, seen) - begin;
        let high = min(SPLIT, end - begin);
        if (begin > first_begin) {
            // Nobody reads the weights of the split before any more.
            workgroupBarrier();
        }

        // Scores.
        let visible = place.lane >= low && place.lane < high;
        var before = highest;
        if (visible) {
            let cached = paged(entry.x, begin + place.lane);
            let key = key_at(cached, kv_head(unit), 0u);
            places[place.lane] = head_at(cached, kv_head(unit));
            let scales_here = scales_of(cached, kv_head(unit));
            if (SCALED) {
                scales[place.lane] = scales_here.y;
            }
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
                    product *= scales_here.x;
                }
                let score = score_of(product);
                weights[g * PITCH + place.lane] = score;
                highest[g] = max(highest[g], score);
            }
        }

        // Weights.
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
            var weight = 0.0;
            if (visible) {
                weight = exp(weights[g * PITCH + place.lane] - highest[g]);
            }
            weights[g * PITCH + place.lane] = weight;
        }
        workgroupBarrier();
        // What was summed up to here weighs less by how much higher the highest score is now.
        if (place.lane < HEADS * 8u) {
            var factor = 0.0;
            for (var g = 0u; g < HEADS; g++) {
                factor = select(factor, exp(before[g] - highest[g]), place.lane / 8u == g);
            }
            var sum = 0.0;
            let first = place.lane / 8u * PITCH + place.lane % 8u;
            for (var i = 0u; i < LANES; i += 8u) {
                sum += weights[first + i];
            }
            total = total * factor + sum;
        }

        // The weighted sum of the values: lanes lie along the head first, then along the positions, four of which are on their way at once.
        var own: array<vec4<f32>, HEADS>;
        for (var g = 0u; g < HEADS; g++) {
            own[g] = vec4<f32>();
        }
        if (d < params.stride4) {
            let last = min((own_share + 1u) * share, high);
            for (var at = max(own_share * share, low); at < last; at += 4u) {
                // One beyond the last is read as that and weighs nothing.
                let at_1 = min(at + 1u, last - 1u);
                let at_2 = min(at + 2u, last - 1u);
                let at_3 = min(at + 3u, last - 1u);
                var v_0 = of_value(places[at], d);
                var v_1 = of_value(places[at_1], d);
                var v_2 = of_value(places[at_2], d);
                var v_3 = of_value(places[at_3], d);
                if (SCALED) {
                    v_0 *= scales[at];
                    v_1 *= scales[at_1];
                    v_2 *= scales[at_2];
                    v_3 *= scales[at_3];
                }
                // Not even where it is infinite.
                v_1 = select(vec4<f32>(), v_1, at + 1u < last);
                v_2 = select(vec4<f32>(), v_2, at + 2u < last);
                v_3 = select(vec4<f32>(), v_3, at + 3u < last);
                for (var g = 0u; g < HEADS; g++) {
                    let w = g * PITCH;
                    own[g] += weights[w + at] * v_0;
                    own[g] += select(0.0, weights[w + at_1], at + 1u < last) * v_1;
                    own[g] += select(0.0, weights[w + at_2], at + 2u < last) * v_2;
                    own[g] += select(0.0, weights[w + at_3], at + 3u < last) * v_3;
                }
            }
        }
        for (var round = 0u; round < ROUNDS; round++) {
            let first = round * PAIR;
            if (round > 0u) {
                workgroupBarrier();
            }
            for (var p = 0u; p < PAIR; p++) {
                partial[p * LANES + place.lane] = own[min(first + p, HEADS - 1u)];
            }
            workgroupBarrier();
            if (own_share < PAIR) {
                let h = min(first, HEADS - 1u);
                let last = min(first + PAIR, HEADS) - 1u;
                let factor = select(exp(before[h] - highest[h]), exp(before[last] - highest[last]), own_share == 1u);
                var sum = sums[round] * factor;
                for (var s = 0u; s < shares; s++) {
                    sum += partial[own_share * LANES + s * share + d];
                }
                sums[round] = sum;
            }
        }
    }

    if (place.lane < HEADS * 8u) {
        totals[place.lane] = total;
    }
    workgroupBarrier();
    let all = parts_of_row(entry.z);
    for (var round = 0u; round < ROUNDS; round++) {
        let g = round * PAIR + own_share;
        if (own_share < PAIR && d < params.stride4 && g < HEADS) {
            var whole = totals[g * 8u];
            for (var i = 1u; i < 8u; i++) {
                whole += totals[g * 8u + i];
            }
            let head = row * params.heads + unit * HEADS + g;
            let last = min(round * PAIR + PAIR, HEADS) - 1u;
            let most = select(highest[round * PAIR], highest[last], own_share == 1u);
            if (all == 1u) {
                output[head * params.stride4 + d] = sums[round] / with_sink(whole, most, head);
            } else {
                let part = (head * parts_of_head() + place.group.x) * (params.stride4 + 1u);
                parts[part + d] = sums[round];
                if (d == 0u) {
                    parts[part + params.stride4] = vec4<f32>(most, whole, 0.0, 0.0);
                }
            }
        }
    }
    if (all > 1u) {
        merge_last(place.lane, unit, number, row, 1u);
    }
}
