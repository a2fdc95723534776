//! `tidegate model ...` where something is in its way, and what `check` says of a model's own chat template.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::Workspace;

use crate::models::{PATIENCE, asking, convert, copy, demo_model, text, workspace};

#[test]
fn a_conversion_writes_over_nothing() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path("taken")).unwrap();
    workspace.write("taken/tokenizer.json", "mine");
    workspace.write("file", "mine");
    let (code, said) = convert(&workspace, &demo_model(), "taken");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("taken is there already and not empty"),
        "{said}"
    );
    assert_eq!(workspace.read("taken/tokenizer.json"), b"mine");
    assert!(!workspace.path("taken/config.json").exists());
    let (code, said) = convert(&workspace, &demo_model(), "file");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("file cannot be used"), "{said}");
    assert_eq!(workspace.read("file"), b"mine");
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    let workspace = Workspace::new("");
    // The last rows of the weights are no numbers: that is found when they are converted.
    let model = copy(&workspace, "model");
    let weights = model.join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0xff);
    std::fs::write(&weights, bytes).unwrap();
    let (code, said) = convert(&workspace, &model, "new");
    assert_eq!(code, Some(1), "{said}");
    assert!(!workspace.path("new").exists(), "{said}");
    // A directory that was there, empty, stays.
    std::fs::create_dir(workspace.path("empty")).unwrap();
    let (code, said) = convert(&workspace, &model, "empty");
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(
        std::fs::read_dir(workspace.path("empty")).unwrap().count(),
        0,
        "{said}"
    );
    let (code, said) = convert(&workspace, &demo_model(), "empty");
    assert_eq!(code, Some(0), "{said}");
    assert!(workspace.path("empty/tokenizer.json").is_file());
}

#[test]
fn a_conversion_begins_anew_where_one_was_interrupted() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path("new")).unwrap();
    // What a process that was killed leaves.
    workspace.write("new/.tidegate-conversion", "");
    workspace.write("new/tokenizer.json", "{}");
    workspace.write("new/.model.safetensors.part", "half of it");
    let (code, said) = convert(&workspace, &demo_model(), "new");
    assert_eq!(code, Some(0), "{said}");
    let mut left: Vec<String> = std::fs::read_dir(workspace.path("new"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    left.sort();
    assert_eq!(left, [""; 0], "nothing tells of it any more");
    assert!(workspace.path("new/config.json").is_file());
}

#[test]
fn a_conversion_takes_away_only_what_one_has_written() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path("new")).unwrap();
    workspace.write("new/.tidegate-conversion", "");
    workspace.write("new/tokenizer.json", "{}");
    workspace.write("new/notes.txt", "mine");
    let (code, said) = convert(&workspace, &demo_model(), "new");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("holds \"notes.txt\" beside"), "{said}");
    assert_eq!(workspace.read("new/notes.txt"), b"mine");
    assert_eq!(workspace.read("new/tokenizer.json"), b"{}");
    // A model whose conversion was interrupted at the very end, converted into itself.
    let model = copy(&workspace, "model");
    let weights = std::fs::read(model.join("model.safetensors")).unwrap();
    workspace.write("model/.tidegate-conversion", "");
    let (code, said) = convert(&workspace, &model, "model");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is the model itself"), "{said}");
    assert!(workspace.read("model/model.safetensors") == weights);
}

#[test]
fn two_conversions_do_not_write_into_one_directory() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path("new")).unwrap();
    workspace.write("new/.tidegate-conversion", "");
    workspace.write("new/.model.safetensors.part", "half of it");
    // As the other conversion holds it.
    let mark = std::fs::File::open(workspace.path("new/.tidegate-conversion")).unwrap();
    mark.lock().unwrap();
    let (code, said) = convert(&workspace, &demo_model(), "new");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("new is what another conversion is writing"),
        "{said}"
    );
    assert_eq!(workspace.read("new/.model.safetensors.part"), b"half of it");
    // Ended without a word, it is in nobody's way.
    drop(mark);
    let (code, said) = convert(&workspace, &demo_model(), "new");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_conversion_is_not_begun_where_the_model_cannot_be_measured() {
    let workspace = Workspace::new("");
    let model = demo_model();
    let model = model.to_str().unwrap();
    let output = workspace
        .command(&[
            "model",
            "convert",
            model,
            "new",
            "--to",
            "int8",
            "--adapter",
            "cpu",
        ])
        .env("TIDEGATE_KERNELS", "fast")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("TIDEGATE_KERNELS is `fast`"), "{said}");
    assert!(!workspace.path("new").exists(), "{said}");
}

#[test]
fn bench_prints_what_its_readme_says() {
    let workspace = Workspace::new("");
    let model = demo_model();
    let model = model.to_str().unwrap();
    let output = workspace.run(&[
        "model",
        "bench",
        model,
        "--quant",
        "int8",
        "--adapter",
        "cpu",
        "--seconds",
        "0.01",
        "--contexts",
        "16,256",
        "--batches",
        "1,8,32",
        "--json",
    ]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let positive = |value: &Value, what: &str| {
        assert!(
            value.as_f64().is_some_and(|number| number > 0.0),
            "{what}: {value} in {report}"
        );
    };
    assert_eq!(report["model"], model);
    assert_eq!(report["quant"], "int8");
    assert_eq!(report["software"], true);
    for key in [
        "parameters",
        "weights_bytes",
        "copy_bandwidth_bytes_per_s",
        "prefill_tokens_per_s",
        "bandwidth_share",
    ] {
        positive(&report[key], key);
    }
    for key in ["time_to_ready_s", "time_to_first_token_s"] {
        positive(&report[key]["cold"], key);
        positive(&report[key]["warm"], key);
    }
    let contexts = report["contexts"].as_array().unwrap();
    assert_eq!(contexts.len(), 2);
    for (context, positions) in contexts.iter().zip([16, 256]) {
        assert_eq!(context["context"], positions);
        positive(&context["prefill_tokens_per_s"], "prefill");
        for batch in ["1", "8", "32"] {
            positive(&report["decode_tokens_per_s"][batch], batch);
            positive(&context["decode_tokens_per_s"][batch], batch);
            positive(&context["bandwidth_share"][batch], batch);
            positive(&context["decode_submission_ms"][batch], batch);
            let kernels = context["decode_kernels"][batch].as_array().unwrap();
            let matmul = kernels.iter().find(|time| time["kernel"] == "matmul");
            positive(&matmul.unwrap()["ms"], "matmul");
        }
    }
}

/// `tidegate model plan` of a known shape; the exit code, and what it said on which stream.
fn plan(workspace: &Workspace, more: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let command = ["model", "plan", "--random", "125M", "--quant", "int8"];
    let output = workspace.run(&[&command[..], more].concat());
    (output.status.code(), text(&output.stderr), output.stdout)
}

#[test]
fn a_model_is_planned_for_a_device_that_is_not_here() {
    let workspace = Workspace::new("");
    let profile = r#"
        name = "half a card"
        bandwidth = 1e12
        cache = 8388608
        multiprocessors = 60
        lanes = 1024
        gap = 4e-6
    "#;
    std::fs::write(workspace.path("card.toml"), profile).unwrap();
    for device in ["h100", "h200", "4090", "m3", "igpu", "card.toml"] {
        let steps = ["--batch", "8", "--context", "300", "--chunk", "64"];
        let asked = [&["--device", device, "--json"][..], &steps].concat();
        let (code, said, sheet) = plan(&workspace, &asked);
        assert_eq!(code, Some(0), "{device}: {said}");
        let sheet: Value = serde_json::from_slice(&sheet).unwrap();
        assert_eq!(
            (&sheet["model"], &sheet["quant"]),
            (&"125M".into(), &"int8".into())
        );
        for (step, rows) in [("decode", 8), ("prefill", 64)] {
            let step = &sheet[step];
            assert_eq!(step["rows"], rows);
            let dispatches = step["dispatches"].as_array().unwrap();
            let sum: u64 = dispatches
                .iter()
                .map(|of| of["read_bytes"].as_u64().unwrap())
                .sum();
            assert_eq!(step["read_bytes"], sum);
            assert!(step["least_bytes"].as_u64().unwrap() > 100 << 20);
            assert!(step["seconds"]["total"].as_f64().unwrap() > 0.0);
            assert!(step["measured_ms"].is_null());
        }
    }
    let (code, said, sheet) = plan(&workspace, &["--device", "card.toml", "--batch", "3"]);
    assert_eq!(code, Some(0), "{said}");
    let sheet = text(&sheet);
    for line in [
        "half a card: 1000 GB/s, cache 8.00 MiB, 60 multiprocessors",
        "decode, 3 sequences at 128 positions",
        "prefill, 128 rows that end at 128 positions",
        "dispatches  ",
    ] {
        assert!(sheet.contains(line), "{line} in {sheet}");
    }
}

/// Keys and values in int8: less memory, fewer bytes of a step, and what that costs, in words and in numbers.
#[test]
fn kv_precision_is_counted_planned_and_its_loss_is_printed() {
    let workspace = Workspace::new("");
    let model = demo_model();
    let model = model.to_str().unwrap();
    let info = |more: &[&str]| {
        let output = workspace.run(&[&["model", "info", model, "--adapter", "cpu"], more].concat());
        (
            output.status.code(),
            text(&output.stderr),
            text(&output.stdout),
        )
    };
    let json = |precision: &str, more: &[&str]| -> Value {
        let asked = [&["--json", "--kv-precision", precision], more].concat();
        let (code, said, info) = info(&asked);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&info).unwrap()
    };
    let [half, eight] = [json("f16", &[]), json("int8", &["--loss"])];
    let number = |of: &Value| of.as_u64().unwrap();
    let positions = 2 * 16 * number(&half["layers"]) * number(&half["kv_heads"]);
    let width = number(&half["head_dim"]);
    let block = |of: &Value| number(&of["memory_bytes"]["kv_block"]);
    assert_eq!(block(&half), positions * width.next_multiple_of(4) * 2);
    assert_eq!(block(&eight), positions * (width.next_multiple_of(16) + 4));
    assert_eq!(eight["counted_for"]["kv_precision"], "int8");
    assert!(half["kv_loss"].is_null());
    let loss = &eight["kv_loss"];
    assert!(loss["f32"].as_f64().unwrap() > 0.1, "{loss}");
    let change = loss["change"].as_f64().unwrap();
    let difference = loss["so_kept"].as_f64().unwrap() - loss["f32"].as_f64().unwrap();
    assert!(
        change != 0.0 && (change - difference).abs() < 1e-12,
        "{loss}"
    );
    assert!(
        loss["change_percent"].as_f64().unwrap().abs() < 1.0,
        "{loss}"
    );
    std::fs::write(workspace.path("text"), "How do I pay my bill?").unwrap();
    let (code, said, lines) = info(&["--kv-precision", "int8", "--loss", "--text", "text"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        lines.contains("nats a token with the KV cache in f32, "),
        "{lines}"
    );
    assert!(
        lines.contains(" in int8 (") && lines.contains("on text ("),
        "{lines}"
    );
    let (code, said, _) = info(&["--text", "text"]);
    assert_eq!(code, Some(2), "{said}");

    // 12 layers of 12 key and value heads of 64 elements, at 300 positions of 8 sequences.
    let steps = [
        "--batch",
        "8",
        "--context",
        "300",
        "--device",
        "h100",
        "--json",
    ];
    let read = |precision: &str| {
        let asked = [&steps[..], &["--kv-precision", precision]].concat();
        let (code, said, sheet) = plan(&workspace, &asked);
        assert_eq!(code, Some(0), "{said}");
        let sheet: Value = serde_json::from_slice(&sheet).unwrap();
        assert_eq!(sheet["kv_precision"], precision);
        number(&sheet["decode"]["least_bytes"])
    };
    let saved = 2 * 12 * 12 * (128 - 68) * 8 * 300;
    assert_eq!(read("f16") - read("int8"), saved);
    let (code, said, _) = plan(&workspace, &["--kv-precision", "int4"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("write one of f32, f16, int8"), "{said}");
}

#[test]
fn a_device_that_is_not_described_is_refused_by_name() {
    let workspace = Workspace::new("");
    let whole =
        "name = \"x\"\nbandwidth = 1e12\ncache = 1\nmultiprocessors = 1\nlanes = 1\ngap = 0.0\n";
    std::fs::write(workspace.path("no.toml"), "name = ").unwrap();
    std::fs::write(workspace.path("more.toml"), format!("{whole}colour = 1")).unwrap();
    let zero = whole.replace("1e12", "0.0");
    std::fs::write(workspace.path("zero.toml"), zero).unwrap();
    let three = format!("{whole}subgroup-lanes = [32, 32, 7]");
    std::fs::write(workspace.path("three.toml"), three).unwrap();
    std::fs::create_dir(workspace.path("folder")).unwrap();
    std::fs::write(workspace.path("long.toml"), vec![b'#'; 100_000]).unwrap();
    for (device, what) in [
        (
            "h201",
            "neither a file nor one of h100, h200, 4090, m3, igpu",
        ),
        ("no.toml", "no.toml describes no device"),
        ("more.toml", "unknown field `colour`"),
        ("zero.toml", "bandwidth is 0e0; it must be from 1e6 to 1e18"),
        ("three.toml", "3 numbers; give the least and the most"),
        ("folder", "folder is no regular file"),
        (
            "long.toml",
            "100000 bytes; a device is described in at most 65536",
        ),
    ] {
        let (code, said, _) = plan(&workspace, &["--device", device]);
        assert_eq!(code, Some(2), "{device}: {said}");
        assert!(said.contains(what), "{device}: {said}");
    }
}

#[test]
fn what_a_plan_cannot_count_is_a_mistake_of_what_was_asked_for() {
    let workspace = Workspace::new("");
    for (asked, what) in [
        (
            &["--context", "5000"][..],
            "--context is 5000, must be between 1 and 4096",
        ),
        (&["--kernels", "cooperative"], "Apple M3"),
        (
            &["--batch", "1024", "--context", "4096"],
            "lower --batch or --context",
        ),
    ] {
        let (code, said, _) = plan(&workspace, &[&["--device", "m3"], asked].concat());
        assert_eq!(code, Some(2), "{asked:?}: {said}");
        assert!(said.contains(what), "{asked:?}: {said}");
    }
    // The same here, in the same words.
    for (asked, what) in [
        (
            ["--context", "5000"],
            "--context is 5000, must be between 1 and 4096",
        ),
        (
            ["--kernels", "cooperative"],
            "cooperative kernels cannot run",
        ),
    ] {
        let here = [&["--adapter", "cpu", "--chunk", "1"][..], &asked].concat();
        let (code, said, _) = plan(&workspace, &here);
        assert_eq!(code, Some(2), "{asked:?}: {said}");
        assert!(said.contains(what), "{asked:?}: {said}");
    }
}

#[test]
fn a_plan_for_the_adapter_at_hand_has_the_times_that_were_measured() {
    let workspace = Workspace::new("");
    let model = demo_model();
    let model = model.to_str().unwrap();
    let asked = ["model", "plan", model, "--adapter", "cpu", "--json"];
    let output = workspace.run(&asked);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let sheet: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sheet["device"]["software"], true);
    for step in ["decode", "prefill"] {
        let dispatches = sheet[step]["dispatches"].as_array().unwrap();
        let sum: f64 = dispatches
            .iter()
            .map(|of| of["measured_ms"].as_f64().unwrap())
            .sum();
        let all = sheet[step]["measured_ms"].as_f64().unwrap();
        assert!(all > 0.0 && (all - sum).abs() < 1e-6 * all, "{all} {sum}");
    }
}

#[test]
fn room_for_keys_and_values_that_holds_no_answer_is_a_mistake() {
    for (memory, what) in [
        (
            "1KiB",
            "kv-memory = 1024 bytes holds no block: one of 16 positions takes 20480",
        ),
        (
            "40KiB",
            "max-tokens = 8 leaves 0 positions of 32 that kv-memory holds for the prompt",
        ),
    ] {
        let file = asking("max-tokens = 8").replace(
            "sequences = ",
            &format!("kv-memory = \"{memory}\"\nsequences = "),
        );
        assert!(file.contains("kv-memory"));
        let workspace = workspace(&file, 1);
        let output = workspace.run(&["check", "pipeline.toml"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn counts_out_of_range_are_refused_with_their_limits() {
    let workspace = Workspace::new("");
    let model = demo_model();
    let model = model.to_str().unwrap();
    for (command, option, value) in [
        ("info", "--sequences", "0"),
        ("info", "--sequences", "18446744073709551615"),
        ("info", "--context", "0"),
        ("bench", "--contexts", "128,0"),
        ("bench", "--contexts", "1048577"),
    ] {
        let output = workspace.run(&["model", command, model, option, value]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {said}");
        assert!(
            said.contains("is not a whole number from 1 to 1048576"),
            "{said}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_model_file_is_refused_and_not_waited_for() {
    let workspace = Workspace::new("");
    std::fs::create_dir(workspace.path("config")).unwrap();
    copy(&workspace, "tokenizer");
    std::fs::remove_file(workspace.path("tokenizer/tokenizer.json")).unwrap();
    let pipes = [
        "model.gguf",
        "config/config.json",
        "tokenizer/tokenizer.json",
    ];
    for (pipe, model) in pipes.into_iter().zip(["model.gguf", "config", "tokenizer"]) {
        let made = Command::new("mkfifo")
            .arg(workspace.path(pipe))
            .status()
            .unwrap();
        assert!(made.success());
        let mut running = workspace.start(&["model", "info", model]);
        let status = running.wait(PATIENCE);
        let said = text(&workspace.read("stderr.log"));
        if model == "tokenizer" {
            // The rest of the model can be looked at; the line of the tokenizer says what is wrong.
            assert!(status.success(), "{said}");
        } else {
            assert_eq!(status.code(), Some(1), "{said}");
            assert!(said.contains("not a regular file"), "{said}");
        }
    }
}

/// Gives a model another chat template.
fn set_template(model: &Path, template: &str) {
    let path = model.join("tokenizer_config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["chat_template"] = json!(template);
    std::fs::write(path, config.to_string()).unwrap();
}

#[test]
fn a_long_chat_template_leaves_less_room_and_long_texts_are_cut_to_it() {
    let workspace = workspace(
        &asking("max-tokens = 8").replace(demo_model().to_str().unwrap(), "model"),
        1,
    );
    let model = copy(&workspace, "model");
    let page = "Answer in plain words, be kind and do not say what you do not know. ".repeat(5);
    let own = "{{ bos_token }}PAGE{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}<|assistant|>";
    set_template(&model, &own.replace("PAGE", &page));
    let long = json!({"customer": "a", "text": "the order did not come ".repeat(200)});
    workspace.write("tickets.jsonl", format!("{long}\n"));
    workspace.run_pipeline();
    let dead = text(&workspace.read("dead.jsonl"));
    assert_eq!(workspace.json_lines("out.jsonl").len(), 1, "{dead}");
}

#[test]
fn examples_that_leave_no_record_room_are_a_mistake_of_the_file() {
    let prompt = "prompt = \"{text}\"\ntruncate = \"text\"\n";
    let stage = |content: &str, more: &str| {
        let turns = format!(
            "messages = [{{ role = \"user\", content = {content:?} }}, {{ role = \"assistant\", content = \"Yes.\" }}, \
             {{ role = \"user\", content = \"{{text}}\" }}]\n"
        );
        let file = asking(&format!("max-tokens = 8\n{more}"));
        assert!(file.contains(prompt));
        file.replace(prompt, &turns)
    };
    let long = "did it come today? ".repeat(80);
    for (content, more, said) in [
        (long.as_str(), "", "no record would be asked"),
        (
            "did it come today?",
            "prompt-tokens = 5",
            "prompt-tokens = 5 is less than the ",
        ),
    ] {
        let workspace = workspace(&stage(content, more), 1);
        let output = workspace.run(&["check", "pipeline.toml"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(stderr.contains("messages have "), "{stderr}");
        assert!(stderr.contains("stage.answer.max-tokens"), "{stderr}");
    }
    let workspace = workspace(&stage("did it come today?", ""), 1);
    let output = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // A prompt has fixed parts, too.
    let file = asking("max-tokens = 8").replace("\"{text}\"", &format!("\"{long}{{text}}\""));
    workspace.pipeline(&file);
    let stderr = text(&workspace.run(&["check", "pipeline.toml"]).stderr);
    assert!(stderr.contains("and prompt has "), "{stderr}");
}

#[test]
fn thoughts_are_asked_for_of_models_that_have_a_word_for_them() {
    let file = asking("max-tokens = 8\nreasoning = \"thoughts\"\nreasoning-tokens = 4");
    let file = file.replace(demo_model().to_str().unwrap(), "model");
    let workspace = workspace(&file, 1);
    let model = copy(&workspace, "model");
    let path = model.to_str().unwrap().to_owned();
    let check = || {
        let output = workspace.run(&["check", "pipeline.toml"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let info = || {
        let lines = text(&workspace.run(&["model", "info", &path]).stdout);
        let line = lines.lines().find(|line| line.starts_with("thoughts"));
        let line = line.unwrap_or_else(|| panic!("{lines}")).to_owned();
        let json = workspace.run(&["model", "info", "--json", &path]).stdout;
        let json: Value = serde_json::from_slice(&json).unwrap();
        (
            line["thoughts".len()..].trim().to_owned(),
            json["thoughts"].clone(),
        )
    };
    let said = check();
    for key in ["reasoning", "reasoning-tokens"] {
        let what = "has no effect: the chat template of model \"support\" has no word for thoughts";
        assert!(
            said.contains(&format!("stage.answer.{key}: {what}")),
            "{said}"
        );
    }
    assert_eq!(info(), ("none".to_owned(), Value::Null));

    set_template(
        &model,
        "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'].split('</think>')[-1] }}{% endfor %}<|assistant|>",
    );
    let said = check();
    assert!(!said.contains("has no effect"), "{said}");
    let tags = json!({"begins": "<think>", "ends": "</think>"});
    assert_eq!(info(), ("<think> ... </think>".to_owned(), tags));
}

/// Neither may a library that the driver asks about displays.
#[test]
fn nothing_but_tidegate_writes_on_the_terminal() {
    let workspace = workspace(&asking("max-tokens = 4"), 2);
    let model = demo_model();
    for arguments in [
        &["model", "info", model.to_str().unwrap()][..],
        &["run", "--quiet", "pipeline.toml"],
    ] {
        let ran = workspace
            .command(arguments)
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("DISPLAY")
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(0));
        assert_eq!(text(&ran.stderr), "", "{arguments:?}");
    }
}

/// A raw stage renders no template, so it asks nothing of it; a stage that does is refused before anything runs.
#[test]
fn a_base_model_whose_template_cannot_be_rendered_runs_raw() {
    for raw in [true, false] {
        let stage = if raw {
            "raw = true\nmax-tokens = 8"
        } else {
            "max-tokens = 8"
        };
        let stage = asking(stage).replace(demo_model().to_str().unwrap(), "model");
        let workspace = workspace(&stage, 3);
        set_template(
            &copy(&workspace, "model"),
            "{{ raise_exception('no chats') }}",
        );
        if raw {
            workspace.run_pipeline();
            assert_eq!(workspace.json_lines("out.jsonl").len(), 3);
            continue;
        }
        let checked = workspace.run(&["check", "pipeline.toml"]);
        let said = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{said}");
        let mistake =
            "stage.answer: the model's chat template does not take the stage's messages: ";
        assert!(
            said.contains(mistake) && said.contains("no chats"),
            "{said}"
        );
    }
}

/// The template refuses every chat but the one it is tried with, so an answer tells that none was rendered.
#[test]
fn a_raw_prompt_goes_to_the_model_without_its_chat_template() {
    let refuses = "{% if messages[0]['content'] != 'hello' %}{{ raise_exception('no chats') }}{% endif %}hello";
    for (raw, answers) in [("raw = true\n", 3), ("", 0)] {
        let stage = asking(&format!("{raw}max-tokens = 8"));
        let workspace = workspace(&stage.replace(demo_model().to_str().unwrap(), "model"), 3);
        set_template(&copy(&workspace, "model"), refuses);
        workspace.run_pipeline();
        let dead = text(&workspace.read("dead.jsonl"));
        let lines = workspace.json_lines("out.jsonl");
        assert_eq!(lines.len(), answers, "{dead}");
        assert_eq!(dead.matches("no chats").count(), 3 - answers, "{dead}");
        let answered = |line: &&Value| line["answer"].as_str().is_some_and(|text| !text.is_empty());
        assert_eq!(lines.iter().filter(answered).count(), answers, "{lines:?}");
    }
}

#[test]
fn a_chat_template_that_takes_no_system_message_is_a_mistake_of_the_stage_that_has_one() {
    let stage = "max-tokens = 8\nsystem = \"Be brief.\"";
    let workspace = workspace(
        &asking(stage).replace(demo_model().to_str().unwrap(), "model"),
        1,
    );
    let model = copy(&workspace, "model");
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    set_template(
        &model,
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
         {% for m in messages %}{{ m['content'] }}{% endfor %}",
    );
    let checked = workspace.run(&["check", "pipeline.toml"]);
    let said = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2), "{said}");
    assert!(
        said.contains("stage.answer: the model's chat template does not take"),
        "{said}"
    );
    assert!(said.contains("System role not supported"), "{said}");
}
