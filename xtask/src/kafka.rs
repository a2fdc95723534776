//! A real Kafka broker for tests: Apache Kafka 4 from Maven, one node that is broker and controller (KRaft).
//!
//! `TIDEGATE_KAFKA=host:port` uses a broker that runs already and starts none. The one that is started has a second
//! listener, `TIDEGATE_KAFKA_TLS`, with TLS and SASL: user `alice`, password `open sesame`, certificate in
//! `TIDEGATE_KAFKA_CA`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::steps::{output, run};

/// The oldest Java that a Kafka 4 broker runs on.
const JAVA: u32 = 17;
/// A cold start takes 5 s on two free cores.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// Two runs may pick the same free port between them.
const TRIES: usize = 3;

/// Of its keystore, which lies beside it.
const STORE_PASSWORD: &str = "keystore";

/// A broker, stopped on drop if it was started here.
pub(crate) struct KafkaBroker {
    address: String,
    secure: Option<Secure>,
    started: Option<Started>,
}

/// Its listener with TLS and SASL.
struct Secure {
    address: String,
    /// Its certificate, which nobody but itself has signed.
    certificate: PathBuf,
}

struct Started {
    process: Child,
    directory: PathBuf,
    libraries: PathBuf,
}

impl KafkaBroker {
    /// The variables that tell tests where it is.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("TIDEGATE_KAFKA", self.address.clone())];
        if let Some(secure) = &self.secure {
            variables.push(("TIDEGATE_KAFKA_TLS", secure.address.clone()));
            let certificate = secure.certificate.display().to_string();
            variables.push(("TIDEGATE_KAFKA_CA", certificate));
        }
        variables
    }

    /// Kills it with SIGKILL; its data stays.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let started = self.started()?;
        started.process.kill()?;
        started.process.wait()?;
        Ok(())
    }

    /// Starts it again after [`KafkaBroker::kill`], at the same address and with the same data.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        let address = self.address.clone();
        let started = self.started()?;
        started.process = launch(&started.libraries, &started.directory)?;
        started.wait(&address)
    }

    fn started(&mut self) -> Result<&mut Started> {
        self.started
            .as_mut()
            .context("the broker that TIDEGATE_KAFKA names was not started here")
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        drop(self.started.take());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Its data is thrown away, so it need not end in order. Nothing can be done about an error here.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The broker that `TIDEGATE_KAFKA` names, else a new one.
pub(crate) fn start_or_find(root: &Path) -> Result<KafkaBroker> {
    if let Some(address) = std::env::var("TIDEGATE_KAFKA")
        .ok()
        .filter(|address| !address.is_empty())
    {
        if !answers(&address) {
            bail!("no Kafka broker answers at TIDEGATE_KAFKA={address}");
        }
        return Ok(KafkaBroker {
            address,
            secure: None,
            started: None,
        });
    }
    let kafka = root.join("target").join("kafka");
    let libraries = libraries(root, &kafka)?;
    remove_leftovers(&kafka);
    let mut failure = None;
    for attempt in 0..TRIES {
        match start(&kafka, &libraries, attempt) {
            Ok(broker) => return Ok(broker),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.context("no try to start Kafka was made")?)
}

/// The directory with Kafka's jars; fetched if it is not there or was made from another pom.
fn libraries(root: &Path, kafka: &Path) -> Result<PathBuf> {
    java()?;
    let pom = root.join("xtask/kafka/pom.xml");
    let libraries = kafka.join("libs");
    let wanted = fs::read(&pom).with_context(|| format!("cannot read {}", pom.display()))?;
    if fs::read(libraries.join("pom.xml")).is_ok_and(|made_from| made_from == wanted) {
        return Ok(libraries);
    }
    maven()?;
    println!("fetching Kafka with Maven");
    // The directory gets its name when it is complete.
    let partial = kafka.join(format!("libs-{}", std::process::id()));
    run(Command::new("mvn")
        .args([
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-f",
        ])
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", partial.display())))?;
    fs::copy(&pom, partial.join("pom.xml"))?;
    if libraries.exists() {
        fs::remove_dir_all(&libraries)?;
    }
    fs::rename(&partial, &libraries)?;
    Ok(libraries)
}

fn java() -> Result<()> {
    if java_version().is_some_and(|version| version >= JAVA) {
        return Ok(());
    }
    if setup::is_debian() {
        setup::apt(&["default-jre-headless"])?;
    }
    match java_version() {
        Some(version) if version >= JAVA => Ok(()),
        Some(version) => bail!(
            "Java {version} is too old: Kafka 4 needs Java {JAVA} or newer as `java` on the PATH"
        ),
        None => bail!(
            "Java is missing: install a Java runtime, {JAVA} or newer, or set TIDEGATE_KAFKA=host:port"
        ),
    }
}

/// The major version of `java`, from a line such as `openjdk version "17.0.15" 2025-04-15`.
fn java_version() -> Option<u32> {
    let output = Command::new("java").arg("-version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let version = text.split('"').nth(1)?;
    version
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn maven() -> Result<()> {
    let works = || output(Command::new("mvn").arg("--version")).is_some();
    if works() {
        return Ok(());
    }
    if setup::is_debian() {
        setup::apt(&["maven"])?;
    }
    if !works() {
        bail!("Maven is missing: install it (`mvn` on the PATH), or set TIDEGATE_KAFKA=host:port");
    }
    Ok(())
}

/// Data of brokers whose xtask was killed.
fn remove_leftovers(kafka: &Path) {
    let processes = Path::new("/proc");
    let Ok(entries) = fs::read_dir(kafka) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix("run-")?.split('-').next());
        let gone = |id: &str| processes.join("self").exists() && !processes.join(id).exists();
        if owner.is_some_and(gone) {
            // Somebody else may be doing the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn start(kafka: &Path, libraries: &Path, attempt: usize) -> Result<KafkaBroker> {
    let directory = kafka.join(format!("run-{}-{attempt}", std::process::id()));
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let ports = free_ports()?;
    let certificate = make_keys(&directory)?;
    let properties = directory.join("server.properties");
    fs::write(&properties, configuration(&ports, &directory))?;
    let identity =
        output(jar(libraries, "-Xmx64m").args(["kafka.tools.StorageTool", "random-uuid"]))
            .context("kafka.tools.StorageTool random-uuid failed")?;
    let formatted = jar(libraries, "-Xmx128m")
        .args([
            "kafka.tools.StorageTool",
            "format",
            "-t",
            identity.trim(),
            "--add-scram",
            "SCRAM-SHA-256=[name=alice,password=open sesame]",
            "--add-scram",
            "SCRAM-SHA-512=[name=alice,password=open sesame]",
            "-c",
        ])
        .arg(&properties)
        .output()?;
    if !formatted.status.success() {
        bail!(
            "cannot format Kafka's storage: {}",
            String::from_utf8_lossy(&formatted.stderr)
        );
    }
    let process = launch(libraries, &directory)?;
    let mut started = Started {
        process,
        directory,
        libraries: libraries.to_owned(),
    };
    let address = format!("127.0.0.1:{}", ports.plain);
    started.wait(&address)?;
    Ok(KafkaBroker {
        address,
        secure: Some(Secure {
            address: format!("127.0.0.1:{}", ports.secure),
            certificate,
        }),
        started: Some(started),
    })
}

/// Java with the jars of these libraries.
fn jar(libraries: &Path, heap: &str) -> Command {
    let mut java = Command::new("java");
    java.arg(heap)
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    java.arg(libraries.join("*"));
    java
}

/// The broker of a directory, which has its settings, its data and its log.
fn launch(libraries: &Path, directory: &Path) -> Result<Child> {
    let log = directory.join("log");
    jar(libraries, "-Xmx512m")
        .arg("kafka.Kafka")
        .arg(directory.join("server.properties"))
        .stdin(Stdio::null())
        .stdout(File::create(&log)?)
        .stderr(File::options().append(true).open(&log)?)
        .spawn()
        .context("cannot start java")
}

impl Started {
    /// Waits until it serves.
    fn wait(&mut self, address: &str) -> Result<()> {
        let log = self.directory.join("log");
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
            if text.contains("Kafka Server started") && answers(address) {
                return Ok(());
            }
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let last: Vec<&str> = text.lines().rev().take(15).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                let what = match ended {
                    Some(status) => format!("Kafka ended ({status})"),
                    None => format!("Kafka did not answer within {} s", START_DEADLINE.as_secs()),
                };
                bail!("{what}; the end of {}:\n{}", log.display(), last.join("\n"));
            }
            sleep(Duration::from_millis(100));
        }
    }
}

struct Ports {
    plain: u16,
    secure: u16,
    controller: u16,
}

fn free_ports() -> Result<Ports> {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let (plain, secure, controller) = (bind()?, bind()?, bind()?);
    let port = |listener: TcpListener| listener.local_addr().map(|address| address.port());
    Ok(Ports {
        plain: port(plain)?,
        secure: port(secure)?,
        controller: port(controller)?,
    })
}

/// Makes the broker's key, and its certificate as a file of its own. Java brings the tool along.
fn make_keys(directory: &Path) -> Result<PathBuf> {
    let keytool = |action: &str| {
        let mut keytool = Command::new("keytool");
        keytool.args([action, "-alias", "broker", "-storetype", "PKCS12"]);
        keytool.args(["-storepass", STORE_PASSWORD, "-keystore"]);
        keytool.arg(directory.join("broker.p12"));
        keytool.stdout(Stdio::null()).stderr(Stdio::null());
        keytool
    };
    let names = "SAN=ip:127.0.0.1,dns:localhost";
    run(keytool("-genkeypair")
        .args([
            "-keyalg",
            "EC",
            "-groupname",
            "secp256r1",
            "-validity",
            "30",
        ])
        .args(["-dname", "CN=localhost", "-ext", names]))?;
    let certificate = directory.join("broker.pem");
    run(keytool("-exportcert")
        .arg("-rfc")
        .arg("-file")
        .arg(&certificate))?;
    Ok(certificate)
}

/// One small node: nothing is replicated, groups form at once, topics must be made before they are used.
fn configuration(ports: &Ports, directory: &Path) -> String {
    let Ports {
        plain,
        secure,
        controller,
    } = ports;
    let module = "org.apache.kafka.common.security";
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secure}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PKCS12
ssl.keystore.location={}
ssl.keystore.password={STORE_PASSWORD}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_alice=\"open sesame\";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;
log.dirs={}
auto.create.topics.enable=false
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.dedupe.buffer.size=4194304
",
        directory.join("broker.p12").display(),
        directory.join("data").display()
    )
}

/// Whether a broker answers an ApiVersions request (key 18, version 0), the first that any client sends.
fn answers(address: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let wait = Duration::from_secs(2);
        let Some(address) = address.to_socket_addrs()?.next() else {
            return Ok(false);
        };
        let mut stream = TcpStream::connect_timeout(&address, wait)?;
        stream.set_read_timeout(Some(wait))?;
        // Length 10, key, version, correlation id 7, no client id.
        stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff])?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        Ok(answer[4..] == [0, 0, 0, 7])
    };
    ask().unwrap_or(false)
}
