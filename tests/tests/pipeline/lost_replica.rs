//! A replica whose device is lost while a stream runs: every record has its answer once, the same that one replica makes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_contract::{BLOCK, Decoder, Model, ModelFacts};
use tidegate_flow::Order;
use tidegate_infer::{
    Adapter, DecoderOptions, DeviceOptions, Gpu, GpuDecoder, MappedFiles, MemoryReport,
};
use tidegate_serving::{
    Engine, EngineOptions, LoadDecoder, ModelHandle, ModelLoader, ModelOptions, ModelSource,
    ReplicaStanding, load_replicas,
};
use tidegate_state::MemoryDisk;
use tidegate_tests::until;
use tidegate_text::Tokenizer;
use tidegate_weights::Checkpoint;

use crate::crash::{Setting, audit_lines, files};
use crate::models::{PATIENCE, demo_model};

const CONTEXT: usize = 256;
const SEQUENCES: usize = 3;

/// The demo's model with so many replicas, each on a device of its own.
struct Replicas {
    _engines: Vec<Engine>,
    model: ModelHandle,
    devices: Vec<Arc<Mutex<Option<Gpu>>>>,
}

impl Replicas {
    fn load(count: usize) -> Replicas {
        let first = Engine::start(EngineOptions::default());
        let others: Vec<Engine> = (1..count).map(|_| first.start_beside()).collect();
        let engines: Vec<Engine> = std::iter::once(first).chain(others).collect();
        let devices: Vec<Arc<Mutex<Option<Gpu>>>> = (0..count).map(|_| Arc::default()).collect();
        let replicas = (0..).zip(engines.iter().zip(&devices));
        let replicas =
            replicas.map(|(number, (engine, device))| (engine, source(number, device.clone())));
        let model = load_replicas("support", replicas.collect(), &[]).unwrap();
        Replicas {
            model,
            devices,
            _engines: engines,
        }
    }
}

/// One of them; whoever loads it again opens a device anew.
fn source(number: usize, device: Arc<Mutex<Option<Gpu>>>) -> ModelSource {
    let path = demo_model();
    let checkpoint = Checkpoint::open(&path, &MappedFiles).unwrap();
    let sizes = DecoderOptions {
        context: CONTEXT,
        blocks: SEQUENCES * CONTEXT / BLOCK,
        reproducible: true,
        ..DecoderOptions::default()
    };
    let bytes = MemoryReport::estimate(&checkpoint, &sizes).unwrap().total();
    let load: LoadDecoder = Box::new(move || {
        let adapter = Adapter::choose(Some("cpu")).map_err(|error| error.to_string())?;
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).map_err(|e| e.to_string())?;
        *device.lock().unwrap() = Some(gpu.clone());
        let decoder = GpuDecoder::load(&gpu, &checkpoint, &sizes).map_err(|e| e.to_string())?;
        Ok(Box::new(decoder) as Box<dyn Decoder>)
    });
    ModelSource {
        tokenizer: Arc::new(Tokenizer::from_dir(&path).unwrap()),
        facts: ModelFacts {
            name: "support".into(),
            digest: "sha256:0".into(),
            adapter: format!("device {number}"),
            context: CONTEXT as u32,
            sequences: SEQUENCES as u32,
        },
        bytes,
        load: ModelLoader::Decoder(load),
        options: ModelOptions {
            sequences: SEQUENCES,
            step_time: Duration::from_millis(250),
            ..ModelOptions::default()
        },
    }
}

/// The records that the audit has, in order, and where each was answered.
fn made_on(disk: &MemoryDisk) -> (Vec<String>, Vec<String>) {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let lines = audit_lines(disk).into_iter();
    lines
        .map(|line| (text(&line["record"]), text(&line["model"]["adapter"])))
        .unzip()
}

#[test]
fn a_device_that_is_lost_in_mid_stream_changes_no_byte_and_the_audit_names_the_replica() {
    let mut setting = Setting::new(40, Some(Order::Partition));
    setting.audit = true;
    setting.max_tokens = 24;
    setting.member = true;
    // The thirteenth is retried after a time, and would be elsewhere in each run.
    let lines: String = (1..=40u64)
        .filter(|n| n % 13 != 0)
        .map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 5))
        .collect();
    std::fs::write(setting.path(), lines).unwrap();

    let one = Replicas::load(1);
    let disk = MemoryDisk::new();
    let ended = setting.start(&disk, Arc::new(one.model.clone())).unwrap();
    let ended = ended.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let wanted = files(&disk);
    let answers = wanted.0.lines().count();
    assert!(answers > 20, "{wanted:?}");
    let (asked, made) = made_on(&disk);
    assert_eq!(asked.len(), answers);
    assert!(made.iter().all(|adapter| adapter == "device 0"), "{made:?}");
    drop(one);

    let two = Replicas::load(2);
    let disk = MemoryDisk::new();
    let run = setting.start(&disk, Arc::new(two.model.clone())).unwrap();
    until("tokens of both", PATIENCE, || {
        let replicas = two.model.stats().replicas;
        replicas.iter().all(|one| one.tokens > 20)
    });
    let lost = two.devices[1].lock().unwrap().clone().unwrap();
    lost.lose();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let stats = two.model.stats();
    assert_eq!(stats.failed, 0, "{stats:?}");
    assert!(stats.moved > 0 && stats.retried > 0, "{stats:?}");
    let found = files(&disk);
    assert!(found == wanted, "{}\n{}", found.0, wanted.0);
    let (asked_again, made) = made_on(&disk);
    assert_eq!(asked_again, asked, "each once, in the same order");
    let on = |adapter: &str| made.iter().filter(|made| *made == adapter).count();
    let both = on("device 1, device 0");
    assert!(
        both > 0,
        "what was begun on the lost one ends on the other: {made:?}"
    );
    assert!(on("device 0") > 0, "{made:?}");
    let known = ["device 0", "device 1", "device 1, device 0"];
    assert_eq!(known.map(on).iter().sum::<usize>(), answers, "{made:?}");
    until("both serve again", PATIENCE, || {
        let replicas = two.model.stats().replicas;
        (replicas.iter()).all(|one| one.standing == ReplicaStanding::Serves)
    });
    assert_eq!(two.model.facts().adapter, "device 0, device 1");
}
