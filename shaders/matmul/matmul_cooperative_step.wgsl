        // Number $N of the steps that are on their way.
        let buffer_$N = (step + $Nu) % BUFFERS;
        if (in_row_$X) { stage_input(lane + $Xu * LANES, buffer_$N, x_$N_$X); }
        if (lane + $Wu * LANES < PIECES) { stage_octet(lane + $Wu * LANES, buffer_$N, 0u, octet_of(&piece_$N_$W, 0u)); }
        if (lane + $Wu * LANES < PIECES) { stage_octet(lane + $Wu * LANES, buffer_$N, 1u, octet_of(&piece_$N_$W, 1u)); }
        let next_$N = step + $Nu + DEPTH;
        if (next_$N < steps) {
            piece_$N_$W = piece_at(lane + $Wu * LANES, next_$N, each, first_column);
            if (in_row_$X) { x_$N_$X = input_at(lane + $Xu * LANES, next_$N, each, first_row, rows); }
        }
        workgroupBarrier();
        // Of groups beyond the last, which the last segments lack, the input is zero.
        let x_row_$N = ((buffer_$N * SLICES + slice) * ROWS + block_row) * STRIDE;
        let w_row_$N = ((buffer_$N * SLICES + slice) * COLUMNS + block_column) * STRIDE;
        for (var k = 0u; k < 8u; k += 4u) {
            // Rows of the input follow each other, and so do columns of the weights.
            let input_$R = coopLoadT<Input>(&input_tile[x_row_$N + $Ru * 16u * STRIDE + k], STRIDE);
            let weight_$C = coopLoad<Weight>(&weight_tile[w_row_$N + $Cu * 16u * STRIDE + k], STRIDE);
            sum_$R_$C = coopMultiplyAdd(input_$R, weight_$C, sum_$R_$C);
        }
        if ((step + $Nu + 1u) % each == 0u) {
            // The end of a segment.
            if (SLICES == 1u) {
                total_$R_$C += sum_$R_$C;
            } else {
                let held = slice * (HELD * COLUMNS / 4u) + block_column / 4u;
$FOLD
            }
            sum_$R_$C = Sum();
        }
        if (BUFFERS == 1u) {
            workgroupBarrier();
        }
