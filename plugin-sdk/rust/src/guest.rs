//! The exports of an operator's component. Everything here is called by the code that `#[operator]` writes.

/// Exports an operator from its WebAssembly module; elsewhere it does nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_operator {
    ($operator:ty) => {
        $crate::__export_operator!(@module $operator, {});
    };
    ($operator:ty, tokens) => {
        $crate::__export_operator!(@module $operator, {
            use $crate::tokens::bindings::exports::tidegate::operator::tokens as handler;

            ::std::thread_local! {
                static LANES: ::std::cell::RefCell<$crate::tokens::Lanes<$operator>> =
                    const { ::std::cell::RefCell::new($crate::tokens::Lanes::new()) };
            }

            impl handler::Guest for Component {
                fn open(number: u64, lane: handler::Lane) -> ::core::result::Result<(), handler::Failure> {
                    RUNNER.with_borrow(|runner| {
                        LANES.with_borrow_mut(|lanes| $crate::__guest::open(runner.as_ref(), lanes, number, lane))
                    })
                }

                fn step(
                    pieces: ::std::vec::Vec<handler::Piece>,
                ) -> ::core::result::Result<::std::vec::Vec<handler::Verdict>, handler::Failure> {
                    RUNNER.with_borrow(|runner| {
                        LANES.with_borrow_mut(|lanes| $crate::__guest::step(runner.as_ref(), lanes, pieces))
                    })
                }

                fn close(number: u64) {
                    LANES.with_borrow_mut(|lanes| lanes.close(number));
                }
            }

            $crate::tokens::bindings::export_component!(Component with_types_in $crate::tokens::bindings);
        });
    };
    (@module $operator:ty, { $($beside:tt)* }) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, reason = "the exports of a component have the C calling convention")]
        const _: () = {
            use $crate::bindings::exports::tidegate::operator::packed as exported;

            ::std::thread_local! {
                static RUNNER: ::std::cell::RefCell<::core::option::Option<$crate::Runner<$operator>>> =
                    const { ::std::cell::RefCell::new(::core::option::Option::None) };
            }

            struct Component;

            impl exported::Guest for Component {
                fn describe(
                    config: ::std::string::String,
                ) -> ::core::result::Result<exported::Description, exported::Failure> {
                    $crate::__guest::describe::<$operator>(&config)
                }

                fn init(config: ::std::string::String) -> ::core::result::Result<(), exported::Failure> {
                    let runner = $crate::__guest::start::<$operator>(&config)?;
                    RUNNER.set(::core::option::Option::Some(runner));
                    ::core::result::Result::Ok(())
                }

                fn process(
                    batch: ::std::vec::Vec<u8>,
                ) -> ::core::result::Result<::std::vec::Vec<u8>, exported::Failure> {
                    RUNNER.with_borrow_mut(|runner| $crate::__guest::process(runner.as_mut(), &batch))
                }
            }

            $crate::bindings::export_component!(Component with_types_in $crate::bindings);

            $($beside)*
        };
    };
}

#[cfg(target_family = "wasm")]
#[doc(hidden)]
#[allow(missing_docs, reason = "called by generated code only")]
pub mod glue {
    use crate::bindings::exports::tidegate::operator::packed as exported;
    use crate::bindings::tidegate::operator::types;
    use crate::config::{config_schema, read_config};
    use crate::metrics::{Declaration, Kind};
    use crate::panics::tell;
    use crate::runner::Outputs;
    use crate::tokens::bindings::exports::tidegate::operator::tokens as handler;
    use crate::tokens::{Ending, Lane, LaneKind, Lanes, Tokens};
    use crate::{Described, Failure, FailureClass, Fields, Runner};

    pub fn describe<T: Described>(
        config: &str,
    ) -> Result<exported::Description, exported::Failure> {
        let description = T::DESCRIPTION;
        tell::<T>();
        // A configuration that cannot be read is refused by the schema, and by `init`: who only asks what the operator
        // is, with an empty one, gets an answer.
        let outputs = match read_config::<T::Config>(config) {
            Ok(config) => Outputs::of::<T>(&config),
            Err(_) => Outputs::known::<T>(),
        };
        let known = [
            (Fields::KEY, types::Fields::KEY),
            (Fields::VALUE, types::Fields::VALUE),
            (Fields::HEADERS, types::Fields::HEADERS),
            (Fields::ATTRIBUTES, types::Fields::ATTRIBUTES),
        ];
        let mut reads = types::Fields::empty();
        for (field, flag) in known {
            if description.reads.contains(field) {
                reads |= flag;
            }
        }
        Ok(exported::Description {
            name: description.name.to_owned(),
            version: description.version.to_owned(),
            config_schema: config_schema::<T::Config>(),
            reads,
            outputs: outputs.names,
            metrics: description.metrics.iter().map(metric).collect(),
            handlers: owned(if description.handles_tokens {
                &["tokens"]
            } else {
                &[]
            }),
            extensions: Vec::new(),
        })
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn metric(declaration: &Declaration) -> types::Metric {
        types::Metric {
            name: declaration.name.to_owned(),
            kind: match declaration.kind {
                Kind::Counter => types::MetricKind::Counter,
                Kind::Gauge => types::MetricKind::Gauge,
                Kind::Histogram => types::MetricKind::Histogram,
            },
            help: declaration.help.to_owned(),
            labels: owned(declaration.labels),
            bounds: declaration.bounds.to_vec(),
        }
    }

    pub fn start<T: Described>(config: &str) -> Result<Runner<T>, exported::Failure> {
        tell::<T>();
        Runner::start(config).map_err(failure)
    }

    pub fn process<T: Described>(
        runner: Option<&mut Runner<T>>,
        batch: &[u8],
    ) -> Result<Vec<u8>, exported::Failure> {
        let Some(runner) = runner else {
            let why = "`process` was called before `init`";
            return Err(failure(Failure::permanent("not-started", why)));
        };
        runner.process(batch).map_err(failure)
    }

    fn not_started() -> Failure {
        Failure::permanent("not-started", "it was called before `init`")
    }

    pub fn open<T: Tokens>(
        runner: Option<&Runner<T>>,
        lanes: &mut Lanes<T>,
        number: u64,
        lane: handler::Lane,
    ) -> Result<(), handler::Failure> {
        let attributes: Vec<(String, Vec<u8>)> = lane
            .attributes
            .into_iter()
            .map(|attribute| (attribute.name, attribute.value))
            .collect();
        let lane = Lane {
            identity: &lane.identity,
            model: &lane.model,
            choice: lane.choice,
            kind: match lane.kind {
                handler::LaneKind::Content => LaneKind::Content,
                handler::LaneKind::Reasoning => LaneKind::Reasoning,
                handler::LaneKind::Arguments(call) => LaneKind::Arguments(call),
            },
            attributes: &attributes,
        };
        let opened = match runner {
            Some(runner) => lanes.open(runner.operator(), number, &lane),
            None => Err(not_started()),
        };
        opened.map_err(token_failure)
    }

    pub fn step<T: Tokens>(
        runner: Option<&Runner<T>>,
        lanes: &mut Lanes<T>,
        pieces: Vec<handler::Piece>,
    ) -> Result<Vec<handler::Verdict>, handler::Failure> {
        let Some(runner) = runner else {
            return Err(token_failure(not_started()));
        };
        let step = |piece: handler::Piece| {
            let operator = runner.operator();
            let through = lanes.step(operator, piece.lane, &piece.text, piece.last)?;
            Ok(handler::Verdict {
                text: through.text,
                end: through.end.map(|end| match end {
                    Ending::Stop => handler::Ending::Stop,
                    Ending::Filtered => handler::Ending::Filtered,
                }),
            })
        };
        pieces
            .into_iter()
            .map(step)
            .collect::<Result<_, Failure>>()
            .map_err(token_failure)
    }

    fn token_failure(failure: Failure) -> handler::Failure {
        use crate::tokens::bindings::tidegate::operator::types::FailureClass as Class;

        handler::Failure {
            class: match failure.class {
                FailureClass::Transient => Class::Transient,
                FailureClass::Permanent => Class::Permanent,
                FailureClass::BadConfiguration => Class::BadConfiguration,
            },
            code: failure.code,
            message: failure.message,
        }
    }

    fn failure(failure: Failure) -> exported::Failure {
        exported::Failure {
            class: match failure.class {
                FailureClass::Transient => types::FailureClass::Transient,
                FailureClass::Permanent => types::FailureClass::Permanent,
                FailureClass::BadConfiguration => types::FailureClass::BadConfiguration,
            },
            code: failure.code,
            message: failure.message,
        }
    }
}
