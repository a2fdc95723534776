        // Pair $P of the values at a lane's positions.
        let value_0_$P = pair_at(at[0], own_$P);
        let value_1_$P = pair_at(at[1], own_$P);
        let value_2_$P = pair_at(at[2], own_$P);
        let value_3_$P = pair_at(at[3], own_$P);
        a_$P_$K += weight_$K.x * value_0_$P.a + weight_$K.y * value_1_$P.a + weight_$K.z * value_2_$P.a + weight_$K.w * value_3_$P.a;
        b_$P_$K += weight_$K.x * value_0_$P.b + weight_$K.y * value_1_$P.b + weight_$K.z * value_2_$P.b + weight_$K.w * value_3_$P.b;
