// What is stored is added to what the product has left.

const RAW: bool = false;

fn row_of(place: u32) -> u32 {
    return adapted[place].y;
}

fn before(row: u32, column4: u32) -> vec4<f32> {
    return vec4<f32>();
}
