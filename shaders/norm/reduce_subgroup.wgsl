// Sums and maxima over the lanes of a workgroup: over each subgroup, of whatever size, then over the subgroups in the
// workgroup's memory. A subgroup has four lanes or more.

struct Place {
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) in_subgroup: u32,
}

var<workgroup> reduced: array<f32, LANES / 4u>;        // [subgroups]
var<workgroup> reduced_4: array<vec4<f32>, LANES / 4u>; // [subgroups]

fn workgroup_sum(place: Place, value: f32) -> f32 {
    let own = subgroupAdd(value);
    // What an earlier call left has been read.
    workgroupBarrier();
    if (place.in_subgroup == 0u) {
        reduced[place.subgroup] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < place.subgroups; i++) {
        sum += reduced[i];
    }
    return sum;
}

fn workgroup_max(place: Place, value: f32) -> f32 {
    let own = subgroupMax(value);
    workgroupBarrier();
    if (place.in_subgroup == 0u) {
        reduced[place.subgroup] = own;
    }
    workgroupBarrier();
    var highest = reduced[0];
    for (var i = 1u; i < place.subgroups; i++) {
        highest = max(highest, reduced[i]);
    }
    return highest;
}

fn workgroup_sum4(place: Place, value: vec4<f32>) -> vec4<f32> {
    let own = subgroupAdd(value);
    workgroupBarrier();
    if (place.in_subgroup == 0u) {
        reduced_4[place.subgroup] = own;
    }
    workgroupBarrier();
    var sum = vec4<f32>();
    for (var i = 0u; i < place.subgroups; i++) {
        sum += reduced_4[i];
    }
    return sum;
}

fn workgroup_max4(place: Place, value: vec4<f32>) -> vec4<f32> {
    let own = subgroupMax(value);
    workgroupBarrier();
    if (place.in_subgroup == 0u) {
        reduced_4[place.subgroup] = own;
    }
    workgroupBarrier();
    var highest = reduced_4[0];
    for (var i = 1u; i < place.subgroups; i++) {
        highest = max(highest, reduced_4[i]);
    }
    return highest;
}
