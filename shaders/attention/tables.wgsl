@group(0) @binding(1) var<storage, read> tables: array<u32>; // [max_rows * blocks of a sequence]: blocks of each sequence of the step
