        // Each lane reads all of them.
        let a_$P_$K = query_at(query_$K, chunk + 4u * $Pu);
        let b_$P_$K = query_at(query_$K, chunk + 4u * $Pu + 1u);
        let c_$P_$K = query_at(query_$K, chunk + 4u * $Pu + 2u);
        let d_$P_$K = query_at(query_$K, chunk + 4u * $Pu + 3u);
