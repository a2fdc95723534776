//! Rerankers through the whole program: good records, wrong ones, and such as want to do harm.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidegate_tests::{Workspace, root};

/// What sentence-transformers made these scores with, and what it made.
fn golden(name: &str) -> PathBuf {
    root().join("host/reference/tests/golden").join(name)
}

fn workspace(model: &str, stage: &str, lines: &[Value]) -> Workspace {
    let workspace = Workspace::new(&format!(
        "[pipeline]\nname = \"search\"\n[source.questions]\ntype = \"file\"\npaths = [\"questions.jsonl\"]\n\
         [model.reranker]\npath = {:?}\n[[stage]]\nname = \"order\"\nrerank = \"reranker\"\nquery = \"{{query}}\"\n{stage}\n\
         [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n[dead-letters]\ntype = \"file\"\npath = \"dead.jsonl\"\n",
        golden(model)
    ));
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    workspace.write("questions.jsonl", lines);
    workspace
}

#[test]
fn rankings_of_a_whole_pipeline_are_those_of_sentence_transformers() {
    for model in [
        "bert-relevance-f16",
        "roberta-relevance-bf16",
        "modernbert-relevance-f16",
    ] {
        let pairs = std::fs::read(golden(model).join("pairs.json")).unwrap();
        let pairs: Value = serde_json::from_slice(&pairs).unwrap();
        let rankings = pairs["rankings"].as_array().unwrap();
        let workspace = workspace(model, "documents = \"documents\"", rankings);
        workspace.run_pipeline();
        let lines = workspace.json_lines("out.jsonl");
        // The second query is by itself longer than what a query may be in two of the models: each letter is a token.
        // Documents are cut.
        let limit = pairs["limit"].as_u64().unwrap() as usize - 2;
        let long = |ranking: &&Value| {
            let query = ranking["query"].as_str().unwrap();
            query.chars().filter(|c| *c != ' ').count() > limit
        };
        let refused = rankings.iter().filter(long).count();
        assert_eq!(lines.len(), rankings.len() - refused, "{model}");
        for dead in workspace.json_lines("dead.jsonl") {
            let reason = dead["reason"].as_str().unwrap();
            assert!(reason.contains("exceeds the limit of"), "{reason}");
        }
        for (line, wanted) in lines.iter().zip(rankings) {
            let scores = wanted["scores"].as_array().unwrap();
            let scores: Vec<f64> = scores.iter().map(|s| s.as_f64().unwrap()).collect();
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let ranking = line["ranking"].as_array().unwrap();
            let found: Vec<usize> = (ranking.iter())
                .map(|one| one["index"].as_u64().unwrap() as usize)
                .collect();
            assert_eq!(found, order, "{model}: {line}");
            for (one, index) in ranking.iter().zip(order) {
                let score = one["score"].as_f64().unwrap();
                assert!((score - scores[index]).abs() < 1e-3, "{model}: {line}");
            }
        }
    }
}

#[test]
fn what_is_no_ranking_is_a_dead_letter_that_says_why_and_what_is_too_long_is_cut() {
    let many = vec!["bread"; 10_000];
    let long = "how wide is the river ".repeat(2_000);
    let questions = [
        json!({"query": "how wide", "documents": "the river"}),
        json!({"query": "how wide", "documents": many}),
        json!({"query": "", "documents": ["the river"]}),
        json!({"documents": ["the river"]}),
        json!({"query": "how wide", "documents": ["the river", 7]}),
        json!({"query": "how wide", "documents": [&long, "[SEP] [CLS]", "\u{fdd1}\u{0}"]}),
        json!({"query": "\u{fdd1}[]", "documents": ["the river"]}),
        json!({"query": &long, "documents": ["the river", "bread"]}),
        json!({"query": "how wide", "documents": vec!["bread"; 1024]}),
    ];
    let workspace = workspace(
        "bert-relevance-f16",
        "documents = \"documents\"\ntop = 3",
        &questions,
    );
    workspace.run_pipeline();
    let reasons: Vec<String> = (workspace.json_lines("dead.jsonl").iter())
        .map(|letter| letter["reason"].as_str().unwrap().to_owned())
        .collect();
    let wanted = [
        "documents is \"the river\", must be a list of documents",
        "documents has 10000 documents, must have 1 to 1024",
        "prompt is empty",
        "prompt needs the field query",
        "documents[1] is 7, must be a text or an object with a text \"text\"",
        "exceeds the limit of 38",
    ];
    for reason in wanted {
        assert!(
            reasons.iter().any(|found| found.contains(reason)),
            "{reason}: {reasons:?}"
        );
    }
    // A query of more tokens than the stage takes is refused as every prompt is; a document is cut.
    assert_eq!(reasons.len(), wanted.len(), "{reasons:?}");
    let lines = workspace.json_lines("out.jsonl");
    let counts: Vec<usize> = (lines.iter())
        .map(|line| line["ranking"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [3, 1, 3]);
    // Equal documents stay in order, over as many steps as 1,024 pairs need.
    let first: Vec<&Value> = (lines[2]["ranking"].as_array().unwrap().iter())
        .map(|one| &one["index"])
        .collect();
    assert_eq!(first, [&json!(0), &json!(1), &json!(2)]);
}

#[test]
fn a_reranker_is_asked_for_nothing_else_and_said_to_be_one() {
    let workspace = workspace("bert-relevance-f16", "documents = \"documents\"", &[]);
    let pipeline = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
    workspace.pipeline(
        &pipeline
            .replace("rerank =", "embed =")
            .replace("query =", "text =")
            .replace("documents = \"documents\"", ""),
    );
    let said = workspace.run(&["check", "pipeline.toml"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    let text = text + &String::from_utf8_lossy(&said.stdout);
    assert!(!said.status.success(), "{text}");
    assert!(text.contains("scores of pairs of texts"), "{text}");
    let said = workspace.run(&[
        "model",
        "info",
        golden("bert-relevance-f16").to_str().unwrap(),
    ]);
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("scores of pairs of texts"), "{text}");
}
