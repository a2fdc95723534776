        // Quads 4 * $P to 4 * $P + 3 of the values at a lane's positions.
        let value_0_$P = four_at(at[0], own_$P);
        let value_1_$P = four_at(at[1], own_$P);
        let value_2_$P = four_at(at[2], own_$P);
        let value_3_$P = four_at(at[3], own_$P);
        a_$P_$K += weight_$K.x * value_0_$P.a + weight_$K.y * value_1_$P.a + weight_$K.z * value_2_$P.a + weight_$K.w * value_3_$P.a;
        b_$P_$K += weight_$K.x * value_0_$P.b + weight_$K.y * value_1_$P.b + weight_$K.z * value_2_$P.b + weight_$K.w * value_3_$P.b;
        c_$P_$K += weight_$K.x * value_0_$P.c + weight_$K.y * value_1_$P.c + weight_$K.z * value_2_$P.c + weight_$K.w * value_3_$P.c;
        d_$P_$K += weight_$K.x * value_0_$P.d + weight_$K.y * value_1_$P.d + weight_$K.z * value_2_$P.d + weight_$K.w * value_3_$P.d;
