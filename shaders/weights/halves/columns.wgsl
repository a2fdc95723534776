// What a lane of matmul_columns.wgsl reads of a unit: 8 elements of each of its four columns, stored as floats of 16 bits, two in a
// word (halves_f16.wgsl, halves_bf16.wgsl). Lanes of neighbouring parts read chunks that follow each other.

const UNITS: u32 = 4u;       // of a group of 32 elements
const OCTETS: u32 = 1u;      // of elements in a unit
const FACTORS: u32 = 0u;     // parts of a unit with a factor of their own
const TOTALS: bool = false;  // whether something is taken from each weight

struct Unit {
    chunks: array<vec4<u32>, 4>, // of the four columns
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = (tile * params.groups + u / 4u) * 16u + u % 4u;
    var unit: Unit;
    for (var i = 0u; i < 4u; i++) {
        unit.chunks[i] = values[(at + i * 4u) * 8u + tile_lane];
    }
    return unit;
}

fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    let chunk = (*unit).chunks[column];
    return Octet(from_halves(chunk.xy), from_halves(chunk.zw));
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    return vec4<f32>();
}
