//! The exports of an operator's component. Everything here is called by the code that `#[operator]` writes.

/// Exports an operator from its WebAssembly module; elsewhere it does nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_operator {
    ($operator:ty) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, reason = "the exports of a component have the C calling convention")]
        const _: () = {
            use $crate::bindings::exports::tidegate::operator::operator as exported;

            ::std::thread_local! {
                static RUNNER: ::std::cell::RefCell<::core::option::Option<$crate::Runner<$operator>>> =
                    const { ::std::cell::RefCell::new(::core::option::Option::None) };
            }

            struct Component;

            impl exported::Guest for Component {
                fn describe() -> exported::Description {
                    $crate::__guest::describe::<$operator>()
                }

                fn init(config: ::std::string::String) -> ::core::result::Result<(), ::std::string::String> {
                    let runner = $crate::__guest::start::<$operator>(&config)?;
                    RUNNER.set(::core::option::Option::Some(runner));
                    ::core::result::Result::Ok(())
                }

                fn process(
                    batch: ::std::vec::Vec<u8>,
                ) -> ::core::result::Result<::std::vec::Vec<u8>, ::std::string::String> {
                    RUNNER.with_borrow_mut(|runner| match runner {
                        ::core::option::Option::Some(runner) => runner.process(&batch),
                        ::core::option::Option::None => ::core::result::Result::Err(
                            ::std::string::String::from("`process` was called before `init`"),
                        ),
                    })
                }
            }

            $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}

#[cfg(target_family = "wasm")]
#[doc(hidden)]
#[allow(missing_docs, reason = "called by generated code only")]
pub mod glue {
    use crate::bindings::exports::tidegate::operator::operator as exported;
    use crate::{Described, Level, Runner, log_line};

    pub fn describe<T: Described>() -> exported::Description {
        let description = T::DESCRIPTION;
        exported::Description {
            name: description.name.to_owned(),
            version: description.version.to_owned(),
            config_schema: T::CONFIG_SCHEMA.to_owned(),
            reads: description.read_names().map(str::to_owned).collect(),
            outputs: description
                .outputs
                .iter()
                .map(|&output| output.to_owned())
                .collect(),
        }
    }

    pub fn start<T: Described>(config: &str) -> Result<Runner<T>, String> {
        if T::DESCRIPTION.log_panics {
            std::panic::set_hook(Box::new(|panic| log_line(Level::Error, &panic.to_string())));
        }
        Runner::start(config)
    }
}
