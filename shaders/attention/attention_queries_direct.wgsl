// How lanes of the software attention come by what they all need: each reads all of it.

fn hold_queries(g: u32, lane: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>) {
}
