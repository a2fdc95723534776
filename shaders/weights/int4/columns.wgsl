// What a lane of matmul_columns.wgsl reads of a unit: 32 elements of each of its four columns, stored as four-bit integers in two's
// complement, and their scales.

const UNITS: u32 = 1u;       // of a group of 32 elements
const OCTETS: u32 = 4u;      // of elements in a unit
const FACTORS: u32 = 1u;     // parts of a unit with a factor of their own
const TOTALS: bool = false;  // whether something is taken from each weight

@group(0) @binding(5) var<storage, read> scales: array<vec2<u32>>; // four f16

struct Unit {
    chunks: array<vec4<u32>, 4>, // of the four columns
    scales: vec2<u32>,
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = tile * params.groups + u;
    var unit: Unit;
    for (var i = 0u; i < 4u; i++) {
        unit.chunks[i] = values[(at * 4u + i) * 8u + tile_lane];
    }
    unit.scales = scales[at * 8u + tile_lane];
    return unit;
}

// Elements get there as bits of a power of two whose unit they are, where their word has them: without a conversion, of which GPUs make
// a quarter of what they add, and with one shift for eight.
fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    let word = (*unit).chunks[column][octet];
    let next = word >> 12u;
    let low = (vec4<u32>(word) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u))
        ^ vec4<u32>(0x4b000008u, 0x49000080u, 0x47000800u, 0x45008000u);
    let high = (vec4<u32>(word, next, next, next) & vec4<u32>(0xf0000u, 0xf00u, 0xf000u, 0xf0000u))
        ^ vec4<u32>(0x43080000u, 0x47000800u, 0x45008000u, 0x43080000u);
    return Octet(
        bitcast<vec4<f32>>(low) - vec4<f32>(8388616.0, 524296.0, 32776.0, 2056.0),
        bitcast<vec4<f32>>(high) - vec4<f32>(136.0, 32776.0, 2056.0, 136.0),
    );
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float((*unit).scales.x), unpack2x16float((*unit).scales.y));
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    return vec4<f32>();
}
