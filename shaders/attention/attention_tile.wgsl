// Attention for GPUs as attention_split.wgsl has it, over a tile of rows: neighbours of one sequence, so that each key and value is
// read once for all of them. Keys and values come through workgroup memory; each row is summed up as if it were alone, in
// the order that attention_shares.wgsl says.
// Workgroup: one part of one unit of one tile; a head is at most HEAD_LANES * 4 elements.
// Grid: (parts, units, tiles).
//
// The host says which rows go together, after those that are taken alone: [tiles] of (first row, rows, 0, 0). All of a tile end in the
// same split, so that their parts have the same size. Of windows, the first rows' may begin in a part before those of the last.

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;     // [rows, heads, stride / 4]
@group(0) @binding(7) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// A query is a head of a row: HEADS * ROWS of them, QUERIES at most. Lanes have three roles:
// - in scores, one of 64, which has positions 64 apart, in one of four groups of OWN queries; it brings the key of its own position;
// - in values, a quad of a head, of EACH queries;
// - in sums of weights, every eighth position of one query.

const QUERIES: u32 = 32u;
const OWN: u32 = 8u;
const EACH: u32 = HEAD_LANES / 8u;        // queries of a lane in values: QUERIES * HEAD_LANES / LANES
const STEP: u32 = 32u;                    // positions whose weights are in workgroup memory at once; VALUES of them have values there
const PAIRS: u32 = QUERIES / 2u + 1u;     // of weights of a position, one beyond, so that those who write them meet no bank twice
const EIGHTHS: u32 = 9u;                  // of a query, one beyond as well
const VALUE_PITCH: u32 = HEAD_LANES / STAGED_QUADS;
const NOTHING: f32 = -3.0e38;             // a score that weighs nothing
const HIDDEN: f32 = -1.0;                 // stands for the weight of what a row does not see: it may be no number there

var<workgroup> places: array<u32, LANES>;               // where the value of each position of the split lies
var<workgroup> scales: array<f32, LANES>;               // of its value
var<workgroup> staged: array<Staged, COLUMNS * LANES>;  // keys: [COLUMNS, LANES]; values: [VALUES, VALUE_PITCH]
var<workgroup> weights: array<vec2<f32>, STEP * PAIRS>; // [STEP, PAIRS]; maxima on their way
var<workgroup> aside: array<f32, QUERIES * EIGHTHS>;    // scales of keys, or maxima or sums: [QUERIES, EIGHTHS]
var<workgroup> highest: array<f32, QUERIES>;
var<workgroup> factors: array<f32, QUERIES>;

// Which of the rows of a tile a query is of; past the last row the last again.
fn row_of(query: u32, rows: u32) -> u32 {
    return min(query / HEADS, rows - 1u);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = step.entries[step.rows + step.alone + group.z];
    let rows = tile.y;
    let unit = group.y;
    let entry = step.entries[tile.x];
    let last_position = entry.z + rows - 1u;
    let seen = first_seen(entry.z);
    let seen_by_last = first_seen(last_position);
    let size = part_of(entry.z);
    let number = first_part(entry.z) + group.x;
    if (number * size > entry.z) {
        return;
    }
    let first_begin = max(number * size, seen / SPLIT * SPLIT);
    let end = min((number + 1u) * size, last_position + 1u);
    let width = width_of_head();
    let share = share_size();

    let own = lane % 64u;
    let own_query = lane / 64u * OWN;
    var starts: array<u32, OWN>;
    for (var j = 0u; j < OWN; j++) {
        let head = unit * HEADS + (own_query + j) % HEADS;
        starts[j] = ((tile.x + row_of(own_query + j, rows)) * params.heads + head) * params.stride4;
    }
    let d = lane % HEAD_LANES;
    let first_query = lane / HEAD_LANES * EACH;
    var sums: array<vec4<f32>, EACH>;
    var of_share: array<vec4<f32>, EACH>;
    for (var e = 0u; e < EACH; e++) {
        sums[e] = vec4<f32>();
        of_share[e] = vec4<f32>();
    }
    var total = 0.0;
    if (lane < QUERIES) {
        highest[lane] = NOTHING;
    }

    for (var begin = first_begin; begin < end; begin += SPLIT) {
        // Nobody reads what is left of the split before any more.
        workgroupBarrier();
        let cached = paged(entry.x, clamp(begin + lane, seen, end - 1u));
        let key = key_at(cached, kv_head(unit), 0u);
        places[lane] = head_at(cached, kv_head(unit));
        if (SCALED) {
            let of_position = scales_of(cached, kv_head(unit));
            aside[lane] = of_position.x;
            scales[lane] = of_position.y;
        }

        // Scores.
        var products: array<vec4<f32>, OWN>;
        for (var j = 0u; j < OWN; j++) {
            products[j] = vec4<f32>();
        }
        for (var first = 0u; first < width; first += COLUMNS) {
            for (var k = 0u; k < COLUMNS; k++) {
                staged[k * LANES + lane] = keys[key + min(first + k, width - 1u) * BLOCK];
            }
            workgroupBarrier();
            for (var t = 0u; t < COLUMNS; t++) {
                let s_0 = staged[t * LANES + own];
                let s_1 = staged[t * LANES + own + 64u];
                let s_2 = staged[t * LANES + own + 128u];
                let s_3 = staged[t * LANES + own + 192u];
                for (var i = 0u; i < STAGED_QUADS; i++) {
                    let quad = (first + t) * STAGED_QUADS + i;
                    if (quad < params.stride4) {
                        let k_0 = quad_of(s_0, i);
                        let k_1 = quad_of(s_1, i);
                        let k_2 = quad_of(s_2, i);
                        let k_3 = quad_of(s_3, i);
                        for (var j = 0u; j < OWN; j++) {
                            let q = queries[starts[j] + quad];
                            products[j] += vec4<f32>(dot(k_0, q), dot(k_1, q), dot(k_2, q), dot(k_3, q));
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        let positions = vec4<u32>(begin + own) + vec4<u32>(0u, 64u, 128u, 192u);
        var most: array<f32, OWN>;
        for (var j = 0u; j < OWN; j++) {
            let position = entry.z + row_of(own_query + j, rows);
            let visible = (positions >= vec4<u32>(first_seen(position))) & (positions <= vec4<u32>(position));
            var product = products[j];
            if (SCALED) {
                product *= vec4<f32>(aside[own], aside[own + 64u], aside[own + 128u], aside[own + 192u]);
            }
            let score = vec4<f32>(score_of(product.x), score_of(product.y), score_of(product.z), score_of(product.w));
            products[j] = score;
            let held = select(vec4<f32>(NOTHING), score, visible);
            most[j] = max(max(held.x, held.y), max(held.z, held.w));
        }

        // The highest score of each query, from 64 lanes that have one each.
        let of_lane = own % STEP * PAIRS + own_query / 2u;
        if (own >= STEP) {
            for (var j = 0u; j < OWN; j += 2u) {
                weights[of_lane + j / 2u] = vec2<f32>(most[j], most[j + 1u]);
            }
        }
        workgroupBarrier();
        if (own < STEP) {
            for (var j = 0u; j < OWN; j += 2u) {
                weights[of_lane + j / 2u] = max(weights[of_lane + j / 2u], vec2<f32>(most[j], most[j + 1u]));
            }
        }
        workgroupBarrier();
        let of_pair = lane / 16u;
        let second = lane / 8u % 2u == 1u;
        var most_of_eighth = NOTHING;
        for (var i = lane % 8u; i < STEP; i += 8u) {
            let pair = weights[i * PAIRS + of_pair];
            most_of_eighth = max(most_of_eighth, select(pair.x, pair.y, second));
        }
        aside[lane / 8u * EIGHTHS + lane % 8u] = most_of_eighth;
        workgroupBarrier();
        if (lane < QUERIES) {
            let before = highest[lane];
            var now = before;
            for (var i = 0u; i < 8u; i++) {
                now = max(now, aside[lane * EIGHTHS + i]);
            }
            highest[lane] = now;
            factors[lane] = exp(before - now);
        }
        workgroupBarrier();

        // Weights; and what was summed up to here weighs less by how much higher the highest score is now.
        for (var j = 0u; j < OWN; j++) {
            let position = entry.z + row_of(own_query + j, rows);
            let visible = (positions >= vec4<u32>(first_seen(position))) & (positions <= vec4<u32>(position));
            let weight = exp(products[j] - vec4<f32>(highest[own_query + j]));
            products[j] = select(vec4<f32>(HIDDEN), weight, visible);
        }
        for (var e = 0u; e < EACH; e++) {
            sums[e] *= factors[first_query + e];
        }
        var sum = 0.0;

        // The weighted sum of the values.
        for (var at = 0u; at < LANES; at += STEP) {
            if (begin + at >= end) {
                break;
            }
            if (own / STEP == at / STEP % 2u) {
                let which = at / 64u;
                for (var j = 0u; j < OWN; j += 2u) {
                    let a = products[j];
                    let b = products[j + 1u];
                    let low = select(vec2<f32>(a.x, b.x), vec2<f32>(a.y, b.y), which == 1u);
                    let high = select(vec2<f32>(a.z, b.z), vec2<f32>(a.w, b.w), which == 3u);
                    weights[of_lane + j / 2u] = select(low, high, which >= 2u);
                }
            }
            for (var some = 0u; some < STEP; some += VALUES) {
                for (var i = lane; i < VALUES * VALUE_PITCH; i += LANES) {
                    let column = min(i % VALUE_PITCH, width - 1u);
                    staged[i] = values[places[at + some + i / VALUE_PITCH] + column];
                }
                workgroupBarrier();
                if (some == 0u) {
                    for (var i = lane % 8u; i < STEP; i += 8u) {
                        let pair = weights[i * PAIRS + of_pair];
                        let weight = select(pair.x, pair.y, second);
                        sum += select(weight, 0.0, weight < 0.0);
                    }
                }
                for (var eight = some; eight < some + VALUES; eight += 8u) {
                    let position = begin + at + eight;
                    // Whether some row does not see one of the eight.
                    let is_ragged = position < seen_by_last || position + 7u > entry.z;
                    for (var i = eight; i < eight + 8u; i++) {
                        let x = staged[(i - some) * VALUE_PITCH + min(d / STAGED_QUADS, width - 1u)];
                        var v = quad_of(x, d % STAGED_QUADS);
                        if (SCALED) {
                            v *= scales[at + i];
                        }
                        let first = i * PAIRS + first_query / 2u;
                        if (is_ragged) {
                            for (var e = 0u; e < EACH; e += 2u) {
                                let pair = weights[first + e / 2u];
                                let hidden = pair < vec2<f32>(0.0);
                                let held = select(pair, vec2<f32>(0.0), hidden);
                                of_share[e] += held.x * select(v, vec4<f32>(), hidden.x);
                                of_share[e + 1u] += held.y * select(v, vec4<f32>(), hidden.y);
                            }
                        } else {
                            for (var e = 0u; e < EACH; e += 2u) {
                                let pair = weights[first + e / 2u];
                                of_share[e] += pair.x * v;
                                of_share[e + 1u] += pair.y * v;
                            }
                        }
                    }
                    if ((at + eight + 8u) % share == 0u) {
                        for (var e = 0u; e < EACH; e++) {
                            sums[e] += of_share[e];
                            of_share[e] = vec4<f32>();
                        }
                    }
                }
                workgroupBarrier();
            }
        }
        // Of a share that is not full.
        for (var e = 0u; e < EACH; e++) {
            sums[e] += of_share[e];
            of_share[e] = vec4<f32>();
        }
        total = total * factors[lane / 8u] + sum;
    }

    aside[lane / 8u * EIGHTHS + lane % 8u] = total;
    workgroupBarrier();
    for (var e = 0u; e < EACH; e++) {
        let query = first_query + e;
        let row = query / HEADS;
        if (row >= rows || query >= HEADS * ROWS || d >= params.stride4) {
            continue;
        }
        let position = entry.z + row;
        let first = first_part(position);
        if (number < first) {
            continue;
        }
        var whole = aside[query * EIGHTHS];
        for (var i = 1u; i < 8u; i++) {
            whole += aside[query * EIGHTHS + i];
        }
        let head = (tile.x + row) * params.heads + unit * HEADS + query % HEADS;
        if (parts_of_row(position) == 1u) {
            output[head * params.stride4 + d] = sums[e] / with_sink(whole, highest[query], head);
        } else {
            let part = (head * parts_of_head() + number - first) * (params.stride4 + 1u);
            parts[part + d] = sums[e];
            if (d == 0u) {
                parts[part + params.stride4] = vec4<f32>(highest[query], whole, 0.0, 0.0);
            }
        }
    }
    if (parts_of_row(entry.z) > 1u) {
        merge_last(lane, unit, number, tile.x, rows);
    }
}
