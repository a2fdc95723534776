//! A model on a real adapter, as a pipeline has it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tidegate_contract::{
    Answer, Conversation, Made, Message, Model, ModelError, ModelTask, Parameters, Prompt, Reply,
    Request, RequestId, Role,
};
use tidegate_control::config::{self, Pipeline};
use tidegate_control::{ModelRefused, ReplicaState};
use tidegate_weights::{LayerTensor, Lora};

use super::gpu::{Used, UsedAdapter};
use super::open::read_lora;
use super::{Adapters, HostedModel, Served, open_checkpoint};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/support-bot/model"
);

fn pipeline() -> Pipeline {
    let stages = r#"
[[stage]]
name = "answer"
model = "support"
prompt = "{text}"
max-tokens = 8
"#;
    pipeline_of(stages)
}

/// A pipeline with the demo's model, and what else its file has.
fn pipeline_of(more: &str) -> Pipeline {
    pipeline_with("", "", more)
}

/// The same with this in the place of that.
fn pipeline_with(that: &str, this: &str, more: &str) -> Pipeline {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipeline.toml");
    std::fs::write(directory.path().join("in.jsonl"), "{}\n").unwrap();
    let file = format!(
        r#"
[pipeline]
name = "ask"

[source.in]
type = "file"
paths = ["in.jsonl"]
format = "json"

[model.support]
path = {MODEL:?}
adapter = "cpu"
sequences = 2
context = 256

{more}

[sink.out]
type = "file"
path = "out.jsonl"
"#
    );
    std::fs::write(&path, file.replace(that, this)).unwrap();
    config::load(&path).unwrap()
}

struct Waiting(Sender<Result<Answer, ModelError>>);

impl Reply for Waiting {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.0.send(result).unwrap();
    }
}

/// What is asked of the demo's model.
struct Asked<'a> {
    messages: Vec<Message>,
    seed: u64,
    parameters: Parameters,
    model: &'a dyn Model,
}

impl<'a> Asked<'a> {
    /// A few greedy tokens in answer to this.
    fn of(model: &'a dyn Model, text: &str) -> Asked<'a> {
        Asked {
            messages: vec![Message::new(Role::User, text)],
            seed: 7,
            parameters: Parameters {
                max_tokens: 8,
                ..Parameters::default()
            },
            model,
        }
    }

    /// The same behind this system message.
    fn behind(mut self, system: &str) -> Asked<'a> {
        self.messages.insert(0, Message::new(Role::System, system));
        self
    }

    /// As many tokens as this, drawn by this seed.
    fn drawn(mut self, max_tokens: u32, seed: u64) -> Asked<'a> {
        self.seed = seed;
        self.parameters.max_tokens = max_tokens;
        self.parameters.temperature = 0.8;
        self
    }

    /// Asks it; the answer comes over the channel.
    fn begin(self, id: u64) -> Answering {
        let (sender, receiver) = channel();
        let request = Request {
            id: RequestId(id),
            attempt: 1,
            seed: self.seed,
            task: ModelTask::Generate {
                prompt: Prompt::Chat(self.messages.into()),
                forced_prefix: Vec::new(),
                parameters: self.parameters,
            },
            class: 5,
            deadline: None,
            reply: Box::new(Waiting(sender)),
        };
        assert!(self.model.submit(request).is_ok());
        Answering(receiver)
    }
}

/// An answer that is being made.
struct Answering(Receiver<Result<Answer, ModelError>>);

impl Answering {
    /// Its tokens.
    fn tokens(self) -> Vec<u32> {
        match self.0.recv_timeout(Duration::from_secs(120)).unwrap() {
            Ok(Answer {
                made: Made::Choices(mut choices),
                ..
            }) => choices.remove(0).tokens,
            other => panic!("no answer but {other:?}"),
        }
    }
}

/// The tokens of an answer.
fn ask(model: &dyn Model, id: u64) -> Vec<u32> {
    let asked = Asked::of(model, "My order came incomplete.");
    asked.begin(id).tokens()
}

/// A request for many tokens, of which there are sixteen.
fn begin(model: &dyn Model, id: u64) -> Answering {
    let number = id % 16;
    let asked = Asked::of(model, &format!("where is parcel {number}"));
    asked.drawn(40, number).begin(id)
}

fn on(adapter: &Arc<UsedAdapter>) -> Used {
    Used {
        there: vec![adapter.clone()],
        missing: Vec::new(),
    }
}

#[test]
fn a_model_answers_the_same_after_its_device_was_lost() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let adapter = adapters.get(Some("cpu")).unwrap();
    let model = HostedModel::load(&pipeline, 0, &adapters, on(&adapter)).unwrap();
    let before = ask(&model, 1);
    assert_eq!(before.len(), 8);
    assert_eq!(model.report().reloads, 0);

    adapter.device(&mut None).unwrap().lose();
    assert_eq!(ask(&model, 2), before);
    assert_eq!(model.report().reloads, 1);
    assert_eq!(ask(&model, 3), before);
    assert_eq!(model.report().reloads, 1, "the new device stays");
}

#[test]
fn a_model_that_is_loaded_after_an_unnoticed_loss_gets_a_new_device() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let adapter = adapters.get(Some("cpu")).unwrap();
    let opened = |seen: &mut Option<u64>| adapter.device(seen).unwrap();
    let mut first = None;
    opened(&mut first).lose();
    let model = HostedModel::load(&pipeline, 0, &adapters, on(&adapter)).unwrap();
    assert_eq!(ask(&model, 1).len(), 8);
    assert_eq!(
        model.report().reloads,
        0,
        "the device is sound from the start"
    );
    let mut second = None;
    assert_eq!(opened(&mut second).loss(), None);
    assert_ne!(first, second);
    // A device that is sound stays, whoever asks.
    let mut third = None;
    opened(&mut third);
    assert_eq!(second, third);
}

/// Writes an adapter of the demo's model: of every query and every down projection, with numbers of this size in B.
fn write_adapter(directory: &Path, size: f32) {
    let checkpoint = open_checkpoint(Path::new(MODEL)).unwrap();
    let config = checkpoint.decoder().unwrap();
    let (rank, query) = (5, config.heads * config.head_dim);
    let modules = [
        ("self_attn.q_proj", query, config.hidden),
        ("mlp.down_proj", config.hidden, config.intermediate),
    ];
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    for layer in 0..config.layers.len() {
        for (module, rows, width) in modules {
            for (which, shape, size) in [("A", [rank, width], 0.3), ("B", [rows, rank], size)] {
                let begin = data.len();
                for index in 0..shape[0] * shape[1] {
                    let number = ((index * 7919 % 1013) as f32 / 506.0 - 1.0) * size;
                    data.extend(number.to_le_bytes());
                }
                header.push(format!(
                    "\"base_model.model.model.layers.{layer}.{module}.lora_{which}.weight\":{{\"dtype\":\"F32\",\"shape\":[{},{}],\"data_offsets\":[{begin},{}]}}",
                    shape[0], shape[1], data.len()
                ));
            }
        }
    }
    let header = format!("{{{}}}", header.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    file.extend(data);
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("adapter_model.safetensors"), file).unwrap();
    let config = r#"{"peft_type": "LORA", "r": 5, "lora_alpha": 10}"#;
    std::fs::write(directory.join("adapter_config.json"), config).unwrap();
}

#[test]
fn models_that_are_adapters_of_one_answer_each_as_itself() {
    let adapters = tempfile::tempdir().unwrap();
    let (strong, idle) = (adapters.path().join("strong"), adapters.path().join("idle"));
    write_adapter(&strong, 0.5);
    write_adapter(&idle, 0.0);
    let mut more = String::new();
    for (name, path) in [("strong", &strong), ("idle", &idle)] {
        more += &format!("[model.{name}]\ntype = \"lora\"\nbase = \"support\"\npath = {path:?}\n");
    }
    for model in ["strong", "idle"] {
        more += &format!(
            "[[stage]]\nname = \"by-{model}\"\nmodel = \"{model}\"\nprompt = \"{{text}}\"\nmax-tokens = 8\n"
        );
    }
    // Nobody asks the base itself; it is loaded all the same.
    let pipeline = Arc::new(pipeline_of(&more));
    assert!(
        super::check(&pipeline).mistakes.is_empty(),
        "{:?}",
        super::check(&pipeline).mistakes
    );
    let Ok(models) = crate::wire::load_models(&pipeline, Some("cpu"), &BTreeMap::new()) else {
        panic!("the models are loaded");
    };
    let models: Vec<Served> = models.into_iter().flatten().collect();
    let [base, strong, idle] = &models[..] else {
        panic!("{}", models.len());
    };
    assert!(matches!(base, Served::Hosted(_)) && matches!(strong, Served::Lora(_)));
    let answers: Vec<Vec<u32>> = [base, strong, idle]
        .iter()
        .zip(1..)
        .map(|(served, id)| ask(served.model().as_ref(), id))
        .collect();
    assert_ne!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2], "B is zero");
    // In any order, whatever is kept of the same prompt.
    assert_eq!(ask(strong.model().as_ref(), 5), answers[1]);
    assert_eq!(ask(base.model().as_ref(), 6), answers[0]);
    let facts = [base, strong, idle].map(Served::facts);
    assert_eq!(facts[1].name, "strong");
    assert_eq!(facts[1].context, facts[0].context);
    let digests = facts.map(|facts| facts.digest);
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    assert!(digests.iter().all(|digest| digest.starts_with("sha256:")));
}

/// The digest of an adapter, and the numbers of the first row of B of a query.
fn numbers_of(lora: &Lora) -> (String, Vec<f32>) {
    let pair = lora.low_rank(0, LayerTensor::Query).unwrap().unwrap();
    let mut row = Vec::new();
    pair.b.read_row(0, &mut row).unwrap();
    (lora.digest(), row)
}

#[test]
fn an_adapter_whose_files_are_written_anew_is_what_was_read_of_them() {
    let directory = tempfile::tempdir().unwrap();
    write_adapter(directory.path(), 0.5);
    let base = open_checkpoint(Path::new(MODEL)).unwrap();
    let read = || read_lora(directory.path(), &base).unwrap();
    let lora = read();
    let before = numbers_of(&lora);
    // In their place, of the same length.
    write_adapter(directory.path(), 0.25);
    assert_eq!(numbers_of(&lora), before);
    let now = numbers_of(&read());
    assert!(now.0 != before.0 && now.1 != before.1);
}

#[test]
fn an_adapter_is_said_with_the_bytes_that_are_loaded() {
    let directory = tempfile::tempdir().unwrap();
    write_adapter(directory.path(), 0.5);
    let more = format!(
        "[model.strong]\ntype = \"lora\"\nbase = \"support\"\npath = {:?}\n[[stage]]\nname = \"answer\"\n\
         model = \"strong\"\nprompt = \"{{text}}\"\nmax-tokens = 8\n",
        directory.path()
    );
    let pipeline = Arc::new(pipeline_of(&more));
    let Ok(models) = crate::wire::load_models(&pipeline, Some("cpu"), &BTreeMap::new()) else {
        panic!("the models are loaded");
    };
    let models: Vec<Served> = models.into_iter().flatten().collect();
    let [Served::Hosted(base), strong] = &models[..] else {
        panic!("{}", models.len());
    };
    let answer = ask(strong.model().as_ref(), 1);
    let before = (strong.facts(), base.report().loras);
    let [lora] = &before.1[..] else {
        panic!("{:?}", before.1);
    };
    assert_eq!(
        (lora.name.as_str(), lora.rank, lora.answered),
        ("strong", 5, 1)
    );
    assert_eq!(lora.tokens, answer.len() as u64);
    let line = crate::commands::model::line(&base.report());
    let wanted = format!(
        "  lora strong: {}, rank 5; answered 1, failed 0, left 0, tokens",
        lora.digest
    );
    assert!(line.contains(&wanted), "{line}");
    write_adapter(directory.path(), 0.0);
    assert_eq!(strong.facts(), before.0);
    assert_eq!(base.report().loras[0].digest, lora.digest);
    base.replace(None).unwrap();
    let own = numbers_of(
        &read_lora(
            directory.path(),
            &open_checkpoint(Path::new(MODEL)).unwrap(),
        )
        .unwrap(),
    )
    .0;
    assert_eq!(base.report().loras[0].digest, own);
    assert_ne!(strong.facts().digest, before.0.digest);
    assert_ne!(ask(strong.model().as_ref(), 2), answer);
    base.unload().unwrap();
    assert_eq!(strong.facts().name, before.0.name);
}

#[test]
fn an_adapter_that_does_not_fit_is_found_before_anything_is_loaded() {
    let adapters = tempfile::tempdir().unwrap();
    write_adapter(adapters.path(), 1.0);
    let config = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 10}"#;
    std::fs::write(adapters.path().join("adapter_config.json"), config).unwrap();
    let more = format!(
        "[model.other]\ntype = \"lora\"\nbase = \"support\"\npath = {:?}\n[[stage]]\nname = \"answer\"\n\
         model = \"other\"\nprompt = \"{{text}}\"\nmax-tokens = 8\n",
        adapters.path()
    );
    let mistakes = super::check(&pipeline_of(&more)).mistakes;
    let [mistake] = &mistakes[..] else {
        panic!("{mistakes:?}");
    };
    assert!(mistake.key.contains("model.other"), "{mistake}");
    assert!(
        mistake.what.contains("lora_A.weight` has shape [5, "),
        "{mistake}"
    );
}

/// A system message of several KV blocks of the demo's model.
const KIND: &str = "You answer mails to a shop. Be kind, be short, and never promise what the shop cannot keep: refunds take a \
                    week, parcels three days, and nobody knows more than the parcel service does.";

/// Stages that ask these models, each with the same beginning, pinned or not.
fn pinning(models: &[&str], pin: bool) -> String {
    let stages = models.iter().enumerate().map(|(at, model)| {
        format!(
            "[[stage]]\nname = \"pins-{at}\"\nmodel = \"{model}\"\nprompt = \"{{text}}\"\nsystem = {KIND:?}\nmax-tokens = 8\n\
             pin-prefix = {pin}\n"
        )
    });
    stages.collect()
}

/// The answer to the demo's question behind that beginning.
fn ask_kindly(model: &dyn Model, id: u64) -> Vec<u32> {
    let asked = Asked::of(model, "where is my parcel").behind(KIND);
    asked.begin(id).tokens()
}

#[test]
fn what_stages_pin_is_shared_and_each_adapter_has_its_own() {
    let adapters = tempfile::tempdir().unwrap();
    write_adapter(adapters.path(), 0.5);
    let lora = format!(
        "[model.strong]\ntype = \"lora\"\nbase = \"support\"\npath = {:?}\n",
        adapters.path()
    );
    let mut answers = Vec::new();
    let mut pinned = Vec::new();
    for (models, pin) in [
        (&["support", "strong"][..], false),
        (&["support", "support", "strong"], true),
        (&["support"], true),
    ] {
        let has_lora = models.contains(&"strong");
        let more = match has_lora {
            true => lora.clone(),
            false => String::new(),
        };
        let pipeline = Arc::new(pipeline_of(&format!("{more}{}", pinning(models, pin))));
        let found = super::check(&pipeline);
        assert!(found.mistakes.is_empty(), "{:?}", found.mistakes);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        let Ok(loaded) = crate::wire::load_models(&pipeline, Some("cpu"), &BTreeMap::new()) else {
            panic!("the models are loaded");
        };
        let Some(Served::Hosted(base)) = &loaded[0] else {
            panic!("the base is loaded");
        };
        let blocks = base.report().blocks_pinned;
        pinned.push(blocks);
        let mut hits = 0;
        let mut one = Vec::new();
        for (served, id) in loaded.iter().flatten().zip(1..) {
            one.push(ask_kindly(served.model().as_ref(), id));
            let found = base.report().prefix_hit_tokens as usize - hits;
            hits += found;
            let of_each = blocks * tidegate_contract::BLOCK / if has_lora { 2 } else { 1 };
            assert_eq!(found, of_each, "{models:?} {pin}");
        }
        answers.push(one);
        // Pins come to the blocks of the sequences.
        assert_eq!(base.report().blocks, 2 * 16 + blocks);
    }
    assert!(
        pinned[2] >= 2 && pinned == [0, 2 * pinned[2], pinned[2]],
        "{pinned:?}"
    );
    assert_eq!(answers[0], answers[1], "the same with and without");
    assert_eq!(answers[0][0], answers[2][0]);
    assert_ne!(answers[0][0], answers[0][1]);
}

#[test]
fn what_cannot_be_pinned_is_said_with_its_numbers() {
    let mistakes = |more: &str| super::check(&pipeline_of(more));
    let few = pinning(&["support", "support"], true);
    let found = mistakes(&few.replace("prompt = \"{text}\"", "prompt = \"a {text}\""));
    assert!(found.mistakes.is_empty(), "{:?}", found.mistakes);
    // Two sequences of 16 blocks each leave 16, less by the memory that is given: 20 blocks of them all.
    let with_memory = |bytes: u64, stages: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipeline.toml");
        std::fs::write(directory.path().join("in.jsonl"), "{}\n").unwrap();
        let file = format!(
            "[pipeline]\nname = \"ask\"\n[source.in]\ntype = \"file\"\npaths = [\"in.jsonl\"]\n[model.support]\npath = {MODEL:?}\n\
             adapter = \"cpu\"\nsequences = 2\ncontext = 256\nkv-memory = \"{bytes}B\"\n{stages}[sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n"
        );
        std::fs::write(&path, file).unwrap();
        config::load(&path).unwrap()
    };
    let stages = pinning(&["support"], true);
    let block = {
        let file = super::ModelFile::open(Path::new(MODEL), super::Splits::Named(None)).unwrap();
        let model = with_memory(1 << 20, &stages).models[0].clone();
        super::sizes::kv_room(&model, &file.checkpoint)
            .unwrap()
            .block
    };
    let pipeline = with_memory(17 * block, &stages);
    let found = super::check(&pipeline).mistakes;
    let [mistake] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(mistake.key, "stage.pins-0.pin-prefix");
    assert!(
        mistake
            .what
            .contains("at most 1 of the 17 that model \"support\" has may be pinned"),
        "{mistake}"
    );
    // Started all the same, it is refused by the engine.
    let Err(crate::exit::Failure::Run(error)) =
        crate::wire::load_models(&Arc::new(pipeline), Some("cpu"), &BTreeMap::new())
    else {
        panic!("it is loaded");
    };
    assert!(
        format!("{error:#}").contains("at most 1 of its 17 may be pinned"),
        "{error:#}"
    );
    assert!(
        super::check(&with_memory(40 * block, &stages))
            .mistakes
            .is_empty()
    );
    let raw = "[[stage]]\nname = \"raw\"\nmodel = \"support\"\nprompt = \"{text}\"\nraw = true\nmax-tokens = 8\npin-prefix = true\n";
    let warnings = mistakes(raw).warnings;
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.what.contains("less than a KV block of 16"),
        "{warning}"
    );
    let remote = "[model.far]\ntype = \"openai\"\nurl = \"http://localhost:1/v1\"\n[[stage]]\nname = \"far\"\nmodel = \"far\"\n\
                  prompt = \"{text}\"\npin-prefix = true\n";
    let found = mistakes(remote).mistakes;
    assert!(
        found
            .iter()
            .any(|mistake| mistake.key == "stage.far.pin-prefix"),
        "{found:?}"
    );
}

#[test]
fn replicas_answer_as_one_does_also_when_the_device_of_one_is_lost() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let used = adapters.get_all(&[Some("cpu")]).unwrap();
    let one = HostedModel::load(&pipeline, 0, &adapters, used).unwrap();
    let wanted: Vec<Vec<u32>> = (0..16).map(|id| begin(&one, id).tokens()).collect();
    assert!(one.report().replicas.is_empty());
    drop(one);
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let all = adapters.get_all(&[Some("cpu"), Some("cpu")]).unwrap();
    let used = all.there.clone();
    assert!(
        !Arc::ptr_eq(&used[0], &used[1]),
        "each has a device of its own"
    );
    let again = adapters.get_all(&[Some("cpu"), Some("cpu")]).unwrap();
    assert!(
        used.iter()
            .zip(&again.there)
            .all(|(one, other)| Arc::ptr_eq(one, other))
    );
    let model = HostedModel::load(&pipeline, 0, &adapters, all).unwrap();
    // One budget for both, as they are on one adapter.
    let memory = model.report().memory;
    assert_eq!(used[0].engine.stats().used, memory);
    assert_eq!(used[1].engine.stats().used, memory);
    let mut id = 16;
    for (reloads, lost) in (0..).zip([None, Some(0), Some(1)]) {
        let answers: Vec<Answering> = (id..id + 16).map(|id| begin(&model, id)).collect();
        if let Some(lost) = lost {
            let before = model.report().tokens;
            while model.report().tokens < before + 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            used[lost].device(&mut None).unwrap().lose();
        }
        let answers: Vec<Vec<u32>> = answers.into_iter().map(Answering::tokens).collect();
        assert_eq!(answers, wanted, "{lost:?}");
        id += 16;
        for _ in 0..600 {
            let report = model.report();
            let mut replicas = report.replicas.iter();
            if report.reloads == reloads && replicas.all(|one| one.standing == ReplicaState::Serves)
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let report = model.report();
    assert_eq!((report.answered, report.failed), (48, 0), "{report:?}");
    assert!(report.reloads == 2 && report.moved > 0, "{report:?}");
    let answered = report.replicas.iter().map(|one| one.answered);
    assert!(answered.clone().all(|one| one >= 8), "{report:?}");
    assert_eq!(answered.sum::<u64>(), 48);
    // Swapped together.
    let after = model.replace(None).unwrap();
    assert_eq!((after.replicas.len(), after.answered), (2, 0));
    assert_eq!(begin(&model, id).tokens(), wanted[0]);
    let gone = model.unload().unwrap();
    assert!(!gone.loaded);
    for _ in 0..100 {
        if used[0].engine.stats().used == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("what was unloaded holds memory");
}

#[test]
fn a_replica_whose_adapter_is_not_there_is_left_out_and_the_others_serve() {
    let pipeline = Arc::new(pipeline());
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let used = adapters.get_all(&[Some("no such"), Some("cpu")]).unwrap();
    let model = HostedModel::load(&pipeline, 0, &adapters, used).unwrap();
    for _ in 0..2 {
        let [gone, serves] = &model.report().replicas[..] else {
            panic!("{:?}", model.report());
        };
        assert_eq!(
            (gone.adapter.as_str(), gone.standing),
            ("no such", ReplicaState::LeftOut)
        );
        assert!(gone.reason.contains("no adapter matches"), "{gone:?}");
        assert_eq!(serves.standing, ReplicaState::Serves);
        assert_eq!(ask(&model, 1).len(), 8);
        // Also when it is loaded again.
        model.replace(None).unwrap();
    }
    let none = adapters.get_all(&[Some("no such"), Some("nor this")]);
    assert!(none.err().unwrap().to_string().contains("no such"));
}

/// A model of embeddings as a stage with these keys has it.
fn embedder(path: &Path, keys: &str) -> HostedModel {
    let pipeline = Arc::new(pipeline_of(&format!(
        "[model.embedder]\npath = {path:?}\nadapter = \"cpu\"\n[[stage]]\nname = \"vector\"\nembed = \"embedder\"\n\
         text = \"{{text}}\"\n{keys}\n"
    )));
    let index = (pipeline.models.iter()).position(|model| model.name == "embedder");
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let used = adapters.get_all(&[Some("cpu")]).unwrap();
    HostedModel::load(&pipeline, index.unwrap(), &adapters, used).unwrap()
}

#[test]
fn a_model_that_puts_something_else_before_texts_does_not_take_the_place_of_another() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden");
    let [first, other] =
        ["mistral-embedding-f16", "qwen3-embedding-bf16"].map(|name| golden.join(name));
    // Both have a prompt `query`, of other words; the first has one where a stage names none.
    for (says, replaced) in [
        ("", false),
        ("prompt-name = \"query\"", false),
        ("prompt-name = \"\"", true),
    ] {
        let model = embedder(&first, says);
        match (model.replace(Some(&other)), replaced) {
            (Ok(_), true) => {}
            (Err(ModelRefused::Refused(why)), false) => {
                assert!(why.contains("another prompt for the texts"), "{why}");
            }
            (found, _) => panic!("{says}: {found:?}"),
        }
    }
}

#[test]
fn the_model_of_the_file_comes_back_after_one_with_a_longer_context() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden");
    let [own, longer] = ["distilbert-f16", "modernbert-bf16"].map(|name| golden.join(name));
    let model = embedder(&own, "");
    let context = model.facts().context;
    model.replace(Some(&longer)).unwrap();
    assert!(model.facts().context > context);
    model.replace(None).unwrap();
    model.replace(Some(&longer)).unwrap();
    model.unload().unwrap();
    // Who asks waits, as a record does, and what it asks is counted.
    let chat = Conversation {
        messages: vec![Message::new(Role::User, "how wide")],
        ..Conversation::default()
    };
    assert!(model.prompt_tokens(&Prompt::Chat(chat)).unwrap() > 0);
    model.replace(None).unwrap();
    assert_eq!(model.facts().context, context);
}

/// What `check` says of a stage with a prompt of an embedding model whose files beside it are these, but for its name and place.
fn wrong_of_prompt(files: &[(&str, &str)], more: &str) -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reference/tests/golden/mistral-embedding-f16");
    let directory = tempfile::tempdir().unwrap();
    let own = [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "modules.json",
        "1_Pooling/config.json",
    ];
    std::fs::create_dir(directory.path().join("1_Pooling")).unwrap();
    for name in own {
        std::fs::copy(golden.join(name), directory.path().join(name)).unwrap();
    }
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let pipeline = pipeline_of(&format!(
        "[model.embedder]\npath = {:?}\nadapter = \"cpu\"\n{more}",
        directory.path()
    ));
    let found = super::check(&pipeline).mistakes.into_iter();
    found
        .map(|mistake| format!("{}: {}", mistake.key, mistake.what))
        .collect()
}

#[test]
fn a_prompt_that_cannot_stand_before_texts_is_a_mistake_of_the_stage_that_has_it() {
    const NAMED: &str = "config_sentence_transformers.json";
    let stage = "[[stage]]\nname = \"vector\"\nembed = \"embedder\"\ntext = \"{text}\"\n";
    let query = format!("{stage}prompt-name = \"query\"\n");
    let query = query.as_str();
    let good = r#"{"prompts": {"query": "query: "}}"#;
    let special = r#"{"prompts": {"query": "[SEP] query: "}, "default_prompt_name": "query"}"#;
    let long = format!(r#"{{"prompts": {{"query": "{}"}}}}"#, "wide ".repeat(20));
    let longer = format!(
        r#"{{"prompts": {{"query": "{}"}}}}"#,
        "wide ".repeat(100_000)
    );
    let mean = r#"{"pooling_mode_mean_tokens": true, "include_prompt": false}"#;
    let last = r#"{"pooling_mode_lasttoken": true, "include_prompt": false}"#;
    let small = format!("context = 40\n{query}");
    let none = format!("{stage}prompt-name = \"\"\n");
    let pooling = "1_Pooling/config.json";
    for (files, more, wrong) in [
        (&[(NAMED, good)][..], query, None),
        (&[(NAMED, good)], &small, None),
        (
            &[(NAMED, &long)],
            &small,
            Some("stage.vector.prompt-name: of prompt \"query\": it leaves none of the 40 tokens"),
        ),
        (
            &[(NAMED, &longer)],
            query,
            Some("it leaves none of the 64 tokens"),
        ),
        // By the model's own choice, and so of the stage.
        (
            &[(NAMED, special)],
            stage,
            Some("stage.vector: of prompt \"query\": it has special tokens"),
        ),
        (&[(NAMED, special)], &none, None),
        (
            &[(NAMED, good), (pooling, mean)],
            query,
            Some("(include_prompt)"),
        ),
        (&[(NAMED, good), (pooling, mean)], stage, None),
        (&[(NAMED, good), (pooling, last)], query, None),
    ] {
        let found = wrong_of_prompt(files, more);
        match (wrong, &found[..]) {
            (None, []) => {}
            (Some(words), [said]) => assert!(said.contains(words), "{said}"),
            _ => panic!("{wrong:?}: {found:?}"),
        }
    }
}

#[test]
fn an_adapter_that_this_machine_does_not_have_is_named_with_those_it_has() {
    let stage = "[[stage]]\nname = \"answer\"\nmodel = \"support\"\nprompt = \"{text}\"\n";
    let missing = |adapters: &str| {
        let pipeline = pipeline_with("adapter = \"cpu\"", adapters, stage);
        super::missing_adapters(&pipeline)
    };
    for fine in ["", "adapter = \"cpu\"", "adapters = [\"cpu\", \"0\"]"] {
        assert!(missing(fine).is_empty(), "{fine}: {:?}", missing(fine));
    }
    let several = missing("adapters = [\"cpu\",\n    \"gup\", \"no such\"]");
    let said: Vec<String> = several.iter().map(ToString::to_string).collect();
    let [one, another] = &said[..] else {
        panic!("{said:?}");
    };
    // The line of the name, and not that of the list.
    assert!(
        one.contains("pipeline.toml:13:5: model.support.adapters: no adapter matches `gup`"),
        "{one}"
    );
    assert!(
        another.contains("pipeline.toml:13:12:") && another.contains("`no such`"),
        "{another}"
    );
    let there = tidegate_infer::Adapter::list();
    assert!(one.contains(&there[0].info().name), "{one}");
    let single = missing("adapter = 99");
    assert!(
        single[0]
            .to_string()
            .contains("model.support.adapter: no adapter matches `99`"),
        "{single:?}"
    );
    // What nobody asks is not loaded.
    let pipeline = pipeline_with("adapter = \"cpu\"", "adapter = 99", "");
    assert!(super::missing_adapters(&pipeline).is_empty());
}
