//! Models of several families that make vectors, from their files on disk through the whole program.

use serde_json::{Value, json};
use tidegate_tests::{Workspace, root};

#[test]
fn vectors_of_a_whole_pipeline_are_those_of_sentence_transformers() {
    for (model, says) in [
        (
            "qwen3-embedding-bf16",
            "rotary; tokens see those before them",
        ),
        (
            "modernbert-bf16",
            "rotary; in 2 of 4 layers tokens see 3 to each side",
        ),
    ] {
        let folder = root().join("host/reference/tests/golden").join(model);
        let workspace = Workspace::new(&format!(
            "[pipeline]\nname = \"texts\"\n[source.texts]\ntype = \"file\"\npaths = [\"texts.jsonl\"]\n\
             [model.embedder]\npath = {folder:?}\n[[stage]]\nname = \"vector\"\nembed = \"embedder\"\n\
             text = \"{{text}}\"\n[sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n"
        ));
        let texts = std::fs::read(folder.join("texts.json")).unwrap();
        let texts: Value = serde_json::from_slice(&texts).unwrap();
        let wanted = texts["vectors"].as_array().unwrap();
        let texts = texts["texts"].as_array().unwrap().iter();
        let lines: String = texts
            .map(|text| format!("{}\n", json!({"text": text})))
            .collect();
        workspace.write("texts.jsonl", lines);
        workspace.run_pipeline();
        let lines = workspace.json_lines("out.jsonl");
        assert_eq!(lines.len(), wanted.len(), "{model}");
        for (line, wanted) in lines.iter().zip(wanted) {
            let found = line["embedding"].as_array().unwrap();
            let wanted = wanted.as_array().unwrap();
            assert_eq!(found.len(), wanted.len(), "{model}");
            for (x, y) in found.iter().zip(wanted) {
                let apart = (x.as_f64().unwrap() - y.as_f64().unwrap()).abs();
                assert!(apart < 1e-4, "{model}: {line}");
            }
        }
        let said = workspace.run(&["model", "info", folder.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("embeddings: vectors of"), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
