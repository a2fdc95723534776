//! What the log has of answers, and what it has no more.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use tidegate_contract::{
    FileLayer as _, KeyedChange, KeyedLog, KeyedLogError, KeyedLoss, KeyedValue,
};
use tidegate_gateway::exchange::{Answered, Content};
use tidegate_gateway::idempotency::key::Digest;
use tidegate_gateway::idempotency::{Answers, Joining};
use tidegate_state::{FileKeyedLog, MemoryDisk, OpenedKeyedLog, StateKey};
use tokio::time::{Instant, timeout};

use crate::flow::{PATIENCE, whole};
use crate::repeating::keeping;

const PATH: &str = "/state/answers/log";

fn open(disk: &MemoryDisk) -> OpenedKeyedLog {
    let key = Arc::new(StateKey::from_hex(&"5".repeat(64)).unwrap());
    FileKeyedLog::open(Arc::new(disk.clone()), Path::new(PATH), key, 0).unwrap()
}

/// Has an answer made under a key of this number, to its end.
async fn answered(answers: &Answers, number: u32) {
    let digest = Digest::of([number.to_le_bytes().as_slice()]);
    let joining = Joining {
        client: digest,
        key: digest,
        body: digest,
        until: Instant::now() + PATIENCE,
    };
    let made = Answered {
        status: StatusCode::OK,
        headers: Vec::new(),
        content: Content::Whole {
            media_type: "application/json",
            bytes: format!("answer {number}").into(),
        },
    };
    let joined = answers
        .join(joining, None, None, |_| async { made })
        .unwrap();
    let said = timeout(PATIENCE, joined).await.unwrap();
    assert_eq!(whole(said), format!("answer {number}"));
}

/// A log that writes once it is told to, and shows the keys that were taken away.
#[derive(Debug)]
struct Waits {
    go: Mutex<Receiver<()>>,
    removed: Arc<Mutex<Vec<[u8; 32]>>>,
}

impl KeyedLog for Waits {
    fn write(
        &mut self,
        changes: &[KeyedChange],
        _: bool,
        _: u64,
    ) -> Result<Option<KeyedLoss>, KeyedLogError> {
        // An error means that it need not wait any more.
        let _ = self.go.lock().unwrap().recv_timeout(PATIENCE);
        let mut removed = self.removed.lock().unwrap();
        removed.extend(changes.iter().filter_map(|change| match change {
            KeyedChange::Put(_) => None,
            KeyedChange::Remove(key) => Some(*key),
        }));
        Ok(None)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_forgotten_goes_from_the_log_however_much_at_once() {
    const ALL: u32 = 3000;
    let disk = MemoryDisk::new();
    let OpenedKeyedLog { log, values, .. } = open(&disk);
    let answers = Answers::over(keeping(64 << 20), Box::new(log), values).unwrap();
    for number in 0..ALL {
        answered(&answers, number).await;
    }
    drop(answers);
    let values = open(&disk.restart(1 << 30)).values;
    assert_eq!(values.len(), ALL as usize);
    // A process that keeps less, on a disk that is busy.
    let (go, wait) = channel();
    let removed = Arc::new(Mutex::new(Vec::new()));
    let log = Waits {
        go: Mutex::new(wait),
        removed: removed.clone(),
    };
    let answers = Answers::over(keeping(1 << 10), Box::new(log), values).unwrap();
    let gone = ALL as usize - answers.len();
    assert!(gone > 2000, "{gone}");
    drop(go);
    let until = Instant::now() + PATIENCE;
    while removed.lock().unwrap().len() < gone {
        let count = removed.lock().unwrap().len();
        assert!(Instant::now() < until, "{count} of {gone}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(removed.lock().unwrap().len(), gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_disk_lost_and_the_process_knows_is_written_again() {
    let disk = MemoryDisk::new();
    let OpenedKeyedLog { log, values, .. } = open(&disk);
    let answers = Answers::over(keeping(1 << 20), Box::new(log), values).unwrap();
    for number in 0..3 {
        answered(&answers, number).await;
    }
    let mut bytes = disk.bytes(Path::new(PATH));
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    drop(disk.replace(Path::new(PATH), &bytes).unwrap());
    // The first finds that the file is another one, the second what it has lost.
    answered(&answers, 3).await;
    answered(&answers, 4).await;
    let until = Instant::now() + PATIENCE;
    let values = loop {
        let values = open(&disk.restart(0)).values;
        if values.len() >= 4 {
            break values;
        }
        assert!(Instant::now() < until, "{} are there", values.len());
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let has = |number: u32| {
        let text = format!("answer {number}");
        let mut values = values.iter();
        values.any(|KeyedValue { value, .. }| value.ends_with(text.as_bytes()))
    };
    for number in [0, 1, 2, 4] {
        assert!(has(number), "{number}");
    }
}
