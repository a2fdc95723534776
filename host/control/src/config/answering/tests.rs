use std::path::Path;

use super::super::*;

/// A pipeline of these stages behind a source of requests, before sinks that answer.
fn parsed(source: &str, stages: &str, sinks: &str) -> Result<Pipeline, Mistakes> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let content = format!(
        "[pipeline]\nname = \"front\"\n[gateway]\n[source.chat]\ntype = \"gateway\"\n{source}\n\
         [model.support]\npath = \"model\"\n[model.small]\npath = \"model\"\n[model.mini]\npath = \"model\"\n\
         [model.toxicity]\ntype = \"kserve\"\nurl = \"http://127.0.0.1:8000\"\nlabels = [\"kind\", \"rude\"]\n\
         {stages}\n{sinks}"
    );
    parse(
        Path::new("pipeline.toml"),
        &directory.join("pipeline.toml"),
        content,
    )
}

fn pipeline(stages: &str, sinks: &str) -> Pipeline {
    let parsed = parsed("", stages, sinks);
    parsed.unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A stage that asks a model what clients say.
const ANSWER: &str = "[[stage]]\nname = \"answer\"\nmodel = \"support\"\nmessages = true\n";
const JUDGE: &str = "[[stage]]\nname = \"judge\"\nclassify = \"toxicity\"\ntext = \"{answer}\"\n";
const REPLY: &str = "[sink.reply]\ntype = \"gateway\"\n";

fn route(pipeline: &Pipeline) -> &Route {
    match &pipeline.sources[0].kind {
        SourceKind::Gateway(route) => route,
        other => panic!("{other:?}"),
    }
}

fn field(pipeline: &Pipeline) -> &str {
    match &pipeline.sinks[0].kind {
        SinkKind::Gateway { field } => field,
        other => panic!("{other:?}"),
    }
}

/// Who answers, in the words of the file.
fn answering(pipeline: &Pipeline) -> Vec<&str> {
    let stages = pipeline.answering(0).into_iter();
    let stages = stages.map(|stage| pipeline.stages[stage].name.as_str());
    stages.collect()
}

/// Whose answer goes before whose at the first sink, those that write what it takes first.
fn order(pipeline: &Pipeline) -> (Vec<&str>, Vec<&str>) {
    let order = pipeline.answering_order(0);
    let name = |answering: &Answering| pipeline.stages[answering.stage].name.as_str();
    let (writing, aside): (Vec<_>, Vec<_>) = order.iter().partition(|one| one.writes);
    assert!(order.is_sorted_by_key(|one| !one.writes));
    (
        writing.into_iter().map(name).collect(),
        aside.into_iter().map(name).collect(),
    )
}

#[test]
fn a_stage_that_judges_the_answer_is_not_the_one_that_answers() {
    for into in ["member", "attributes"] {
        for told in ["", "field = \"answer\"\n"] {
            let judge = format!("{ANSWER}{JUDGE}into = \"{into}\"\n");
            let pipeline = pipeline(&judge, &format!("{REPLY}{told}"));
            assert_eq!(answering(&pipeline), ["answer"], "{into} {told}");
            assert_eq!(field(&pipeline), "answer");
            let route = route(&pipeline);
            assert_eq!(route.models, ["support"]);
            let three = [Endpoint::Chat, Endpoint::Completions, Endpoint::Responses];
            assert!(three.iter().all(|one| route.endpoints.contains(one)));
            assert_eq!(order(&pipeline), (vec!["answer"], vec![]));
        }
    }
}

#[test]
fn under_load_the_stage_that_answers_gets_the_models() {
    let step = "[[source.chat.under-load]]\nwaiting = 5\nmodel = \"small\"\nmax-tokens = 8\n";
    let stages = format!("{ANSWER}{JUDGE}");
    let pipeline = parsed(step, &stages, REPLY).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let alternatives = |name: &str| match &pipeline.stages[pipeline.stage(name).unwrap()].kind {
        StageKind::Model(asks) => asks.alternatives.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((alternatives("answer"), alternatives("judge")), (1, 0));
}

#[test]
fn the_last_that_writes_what_the_sink_takes_answers_and_else_the_last_that_speaks() {
    let sum_up = "[[stage]]\nname = \"sum-up\"\nmodel = \"small\"\nprompt = \"{answer}\"\nfield = \"summary\"\n";
    let both = format!("{ANSWER}{sum_up}");
    // Nobody says which: the last.
    let last = pipeline(&both, REPLY);
    assert_eq!(
        (answering(&last), field(&last)),
        (vec!["sum-up"], "summary")
    );
    assert_eq!(order(&last), (vec!["sum-up"], vec!["answer"]));
    let told = pipeline(&both, &format!("{REPLY}field = \"answer\"\n"));
    assert_eq!(answering(&told), ["answer"]);
    assert_eq!(order(&told), (vec!["answer"], vec!["sum-up"]));
    // What nobody writes, an operator makes of what was said last.
    let write = "[[stage]]\nname = \"write\"\noperator = \"redact.wasm\"\n";
    let made = pipeline(
        &format!("{both}{write}"),
        &format!("{REPLY}field = \"letter\"\n"),
    );
    assert_eq!(answering(&made), ["sum-up"]);
    assert_eq!(order(&made), (vec![], vec!["sum-up", "answer"]));
    // An answer that is only an attribute is no reader's.
    let aside = pipeline(&format!("{both}into = \"attributes\"\n"), REPLY);
    assert_eq!(
        (answering(&aside), field(&aside)),
        (vec!["answer"], "answer")
    );
    // One that takes the value's place is, whatever its name.
    let whole = format!("{both}into = \"value\"\n");
    let whole = pipeline(&whole, &format!("{REPLY}field = \"answer\"\n"));
    assert_eq!(answering(&whole), ["sum-up"]);
}

#[test]
fn a_text_answers_before_a_vector_of_it() {
    let vector = "[[stage]]\nname = \"vector\"\nembed = \"mini\"\ntext = \"{answer}\"\n";
    let both = pipeline(&format!("{ANSWER}{vector}"), REPLY);
    assert_eq!((answering(&both), field(&both)), (vec!["answer"], "answer"));
    assert_eq!(route(&both).models, ["support"]);
    let told = pipeline(
        &format!("{ANSWER}{vector}"),
        &format!("{REPLY}field = \"embedding\"\n"),
    );
    assert_eq!(answering(&told), ["vector"]);
    assert_eq!(route(&told).endpoints, [Endpoint::Embeddings]);
    // Sinks find a vector by its own name where nothing else is.
    let alone = pipeline(vector, &format!("{REPLY}field = \"answer\"\n"));
    assert_eq!(answering(&alone), ["vector"]);
}

#[test]
fn on_each_way_another_may_answer() {
    let stages = "[[stage]]\nname = \"sort\"\ninputs = [\"chat\"]\nclassify = \"toxicity\"\ntext = \"{prompt}\"\n\
         [[stage]]\nname = \"kind\"\ninputs = [\"sort\"]\nmodel = \"support\"\nmessages = true\n\
         [[stage]]\nname = \"rude\"\ninputs = [\"sort.rude\"]\nmodel = \"small\"\nmessages = true\n\
         [[stage]]\nname = \"polish\"\ninputs = [\"rude\"]\nmodel = \"mini\"\nprompt = \"{answer}\"\n\
         [[stage]]\nname = \"vector\"\ninputs = [\"vectors\"]\nembed = \"mini\"\ntext = \"{input}\"\n";
    let sinks = "[sink.reply]\ntype = \"gateway\"\ninputs = [\"kind\", \"polish\", \"vector\"]\n\
         [sink.other]\ntype = \"gateway\"\ninputs = [\"rude\"]\n";
    let vectors = "[source.vectors]\ntype = \"gateway\"\n";
    let pipeline = parsed(vectors, stages, sinks).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    // `rude` answers at its own sink, and is spoken over on the way to the first.
    assert_eq!(answering(&pipeline), ["kind", "rude", "polish"]);
    assert_eq!(field(&pipeline), "answer");
    let vectors = pipeline.answering(1);
    assert_eq!(vectors, [pipeline.stage("vector").unwrap()]);
    let on_the_way = pipeline.on_the_way(0).map(|stage| stage.name.as_str());
    let on_the_way: Vec<&str> = on_the_way.collect();
    assert_eq!(on_the_way, ["sort", "kind", "rude", "polish"]);
}

#[test]
fn a_sink_that_takes_what_nobody_writes_is_a_mistake() {
    let said = |stages: &str, sink: &str| match parsed("", stages, sink) {
        Err(mistakes) => mistakes.to_string(),
        Ok(_) => String::new(),
    };
    let slip = format!("{REPLY}field = \"anwser\"\n");
    assert!(said(ANSWER, &slip).contains("which no stage before it writes"));
    let hidden = format!("{ANSWER}into = \"attributes\"\n");
    assert!(said(&hidden, REPLY).contains("which no stage before it writes"));
    // An operator may.
    let write = "[[stage]]\nname = \"write\"\noperator = \"redact.wasm\"\n";
    assert_eq!(said(&format!("{ANSWER}{write}"), &slip), "");
}

#[test]
fn a_ranking_is_the_answer_of_its_endpoint_and_of_no_other() {
    let order = "[[stage]]\nname = \"order\"\nrerank = \"mini\"\nquery = \"{query}\"\ndocuments = \"documents\"\n";
    let alone = pipeline(order, REPLY);
    assert_eq!(
        (answering(&alone), field(&alone)),
        (vec!["order"], "ranking")
    );
    assert_eq!(route(&alone).endpoints, [Endpoint::Rerank]);
    assert_eq!(route(&alone).models, ["mini"]);
    // What is put in order for an answer is not the answer.
    let both = pipeline(&format!("{order}{ANSWER}"), REPLY);
    assert_eq!(answering(&both), ["answer"]);
    let wrong = parsed("endpoints = [\"embeddings\"]\n", order, REPLY).unwrap_err();
    let wrong = wrong.to_string();
    assert!(
        wrong.contains("the stages that answer make no \"embeddings\"; to be had here: rerank"),
        "{wrong}"
    );
    // Two ways whose records differ.
    let ways = format!(
        "{order}inputs = [\"chat\"]\n[[stage]]\nname = \"vector\"\nembed = \"mini\"\ntext = \"{{input}}\"\ninputs = [\"chat\"]\n"
    );
    let sink = format!("{REPLY}inputs = [\"order\", \"vector\"]\nfield = \"ranking\"\n");
    let wrong = parsed("", &ways, &sink).unwrap_err().to_string();
    assert!(wrong.contains("give each a source of its own"), "{wrong}");
}
