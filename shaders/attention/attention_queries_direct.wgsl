        // Each lane reads all of them.
        let a_$P_$K = query_at(query_$K, chunk + 2u * $Pu);
        let b_$P_$K = query_at(query_$K, chunk + 2u * $Pu + 1u);
