// What a lane of matmul_columns.wgsl reads of a unit: 8 elements of each of its four columns, stored as f32.

const UNITS: u32 = 4u;       // of a group of 32 elements
const OCTETS: u32 = 1u;      // of elements in a unit
const FACTORS: u32 = 0u;     // parts of a unit with a factor of their own
const TOTALS: bool = false;  // whether something is taken from each weight

struct Unit {
    chunks: array<vec4<u32>, 8>, // [4 columns, 2 chunks]
}

struct Octet {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn load_unit(tile: u32, u: u32, tile_lane: u32) -> Unit {
    let at = (tile * params.groups + u / 4u) * 32u + u % 4u * 2u;
    var unit: Unit;
    for (var i = 0u; i < 8u; i++) {
        unit.chunks[i] = values[(at + i / 2u * 8u + i % 2u) * 8u + tile_lane];
    }
    return unit;
}

fn octet_of(unit: ptr<function, Unit>, column: u32, octet: u32) -> Octet {
    return Octet(
        bitcast<vec4<f32>>((*unit).chunks[column * 2u]),
        bitcast<vec4<f32>>((*unit).chunks[column * 2u + 1u]),
    );
}

fn factors_of(unit: ptr<function, Unit>, half: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}

fn minima_of(unit: ptr<function, Unit>) -> vec4<f32> {
    return vec4<f32>();
}
