//! The macros of the Tidegate SDK: `#[operator]`, `#[derive(Configuration)]` and `#[derive(Output)]`.
//!
//! They know only syntax: they turn one annotated function or `impl Operator` block into a described, exported operator,
//! and a type into what an operator is configured with or where its records go. What these are, and how an operator
//! runs, stands in `tidegate-sdk`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod arguments;
mod configuration;
mod names;
mod output;

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::quote;
use syn::{
    DeriveInput, Error, FnArg, Ident, ImplItem, Item, ItemFn, ItemImpl, ReturnType, Type,
    parse_macro_input, spanned::Spanned,
};

use arguments::Arguments;
use names::upper_camel;

/// Makes an operator of a function over a record, or of an `impl Operator` block.
///
/// Arguments, all optional: `name` and `version` (the crate's by default), `reads` (one of, or a list of, `"key"`,
/// `"value"`, `"headers"`, `"attributes"`; all by default; the others are not copied to the operator), `metrics` (a list
/// of constants of `tidegate_sdk::metrics`) and `panics` (where the text of a panic goes: `"stderr"`, the default, which is
/// WASI's and needs no grant; `"log"`, the host's, which then has to be granted; `"trap"`, nowhere). The word `tokens` stands
/// alone: the operator also sees answers as they are made, and is a `tidegate_sdk::Tokens`.
///
/// A function `keep_paid` becomes the operator type `KeepPaid`. Its second parameter, if it has one, is a reference to
/// its configuration, a type that derives `Configuration`. It returns an `Outcome` or anything that becomes one: `bool`
/// (pass or drop), `Changes`, or a `Result` of these whose error goes to the dead letters.
///
/// In an `impl Operator` block the types `Config` and `Output` may be left out: there is then no configuration, and no
/// output beside the main one.
#[proc_macro_attribute]
pub fn operator(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let item = parse_macro_input!(item as Item);
    let expanded = match item {
        Item::Fn(function) => on_function(&arguments, &function),
        Item::Impl(block) => on_impl(&arguments, &block),
        other => Err(Error::new(
            other.span(),
            "`#[operator]` stands on a function over a record or on an `impl Operator for ...` block",
        )),
    };
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a configuration of a table (a struct with named fields) or a choice (an enum without fields).
///
/// The JSON Schema comes from it: names and types of the fields, and their documentation as descriptions. What a field
/// may say in `#[config(...)]`:
///
/// - `default`, or `default = VALUE`: what it is where the key is not there. An `Option` needs none;
/// - `range = 1..=9`: bounds of a number; `1..` and `..=9` as well;
/// - `length = 1..=32`: bounds of a text's characters, or of a list's or table's entries;
/// - `each(...)`: `range` and `length` of every entry of a list or table;
/// - `name = "..."`: its key, the field's name by default. Choices are called as their variants, `DeadLetter` as
///   `dead-letter`.
#[proc_macro_derive(Configuration, attributes(config))]
pub fn configuration(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = configuration::derive(&input);
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

/// Makes the named outputs of an operator of an enum without fields. `NotPaid` is the output `not-paid`;
/// `#[output(name = "...")]` calls it otherwise.
#[proc_macro_derive(Output, attributes(output))]
pub fn output(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = output::derive(&input);
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

fn on_impl(arguments: &Arguments, block: &ItemImpl) -> Result<Tokens, Error> {
    if block.trait_.is_none() {
        return Err(Error::new(
            block.span(),
            "`#[operator]` stands on `impl Operator for ...`, not on an inherent `impl`",
        ));
    }
    let mut block = block.clone();
    let has = |name: &str| {
        block
            .items
            .iter()
            .any(|item| matches!(item, ImplItem::Type(given) if given.ident == name))
    };
    let missing = [
        (
            has("Config"),
            quote!(
                type Config = ::tidegate_sdk::NoConfig;
            ),
        ),
        (
            has("Output"),
            quote!(
                type Output = ::tidegate_sdk::NoOutput;
            ),
        ),
    ];
    for (there, given) in missing {
        if !there {
            block.items.push(syn::parse2(given)?);
        }
    }
    let described = described(arguments, &block.self_ty);
    Ok(quote! { #block #described })
}

fn on_function(arguments: &Arguments, function: &ItemFn) -> Result<Tokens, Error> {
    let signature = &function.sig;
    let name = &signature.ident;
    let visibility = &function.vis;
    let type_name = Ident::new(&upper_camel(&name.to_string()), name.span());
    let mut inputs = signature.inputs.iter();
    if inputs.next().is_none() {
        return Err(Error::new(
            signature.span(),
            "an operator takes a record: `fn name(record: &Record) -> Outcome`",
        ));
    }
    let config = inputs.next();
    if let Some(third) = inputs.next() {
        return Err(Error::new(
            third.span(),
            "an operator takes a record and, at most, its configuration",
        ));
    }
    let (config_type, call) = match config {
        None => (quote!(::tidegate_sdk::NoConfig), quote!(#name(record))),
        Some(FnArg::Typed(config)) => match &*config.ty {
            Type::Reference(reference) => {
                let inner = &reference.elem;
                (quote!(#inner), quote!(#name(record, &self.0)))
            }
            other => {
                return Err(Error::new(
                    other.span(),
                    "the configuration is taken by reference: `config: &Config`",
                ));
            }
        },
        Some(receiver) => {
            return Err(Error::new(
                receiver.span(),
                "an operator function has no `self`",
            ));
        }
    };
    let returned = match &signature.output {
        ReturnType::Type(_, returned) => quote!(#returned),
        ReturnType::Default => {
            return Err(Error::new(
                signature.span(),
                "an operator says what becomes of a record: `-> Outcome`, or `-> bool`",
            ));
        }
    };
    let documentation = format!("The operator made of [`{name}`].");
    let self_type = syn::parse_quote!(#type_name);
    let described = described(arguments, &self_type);
    Ok(quote! {
        #function

        #[doc = #documentation]
        #visibility struct #type_name(#[allow(dead_code)] #config_type);

        impl ::tidegate_sdk::Operator for #type_name {
            type Config = #config_type;
            type Output = <#returned as ::tidegate_sdk::IntoOutcome>::Output;

            fn new(config: Self::Config) -> ::core::result::Result<Self, ::tidegate_sdk::Failure> {
                ::core::result::Result::Ok(#type_name(config))
            }

            #[inline]
            fn process(
                &mut self,
                record: &::tidegate_sdk::Record<'_>,
            ) -> ::tidegate_sdk::Outcome<Self::Output> {
                ::tidegate_sdk::IntoOutcome::into_outcome(#call)
            }
        }

        #described
    })
}

fn described(arguments: &Arguments, self_type: &Type) -> Tokens {
    let name = match &arguments.name {
        Some(name) => quote!(#name),
        None => quote!(env!("CARGO_PKG_NAME")),
    };
    let version = match &arguments.version {
        Some(version) => quote!(#version),
        None => quote!(env!("CARGO_PKG_VERSION")),
    };
    let reads = if arguments.reads.is_empty() {
        quote!(::tidegate_sdk::Fields::ALL)
    } else {
        let fields = arguments.reads.iter().map(|field| {
            let constant = Ident::new(&field.value().to_uppercase(), Span::call_site());
            quote!(.and(::tidegate_sdk::Fields::#constant))
        });
        quote!(::tidegate_sdk::Fields::NONE #(#fields)*)
    };
    let metrics = &arguments.metrics;
    let panics = Ident::new(arguments.panics, Span::call_site());
    let handles_tokens = arguments.tokens;
    let export = match handles_tokens {
        true => quote!(#self_type, tokens),
        false => quote!(#self_type),
    };
    let open_lane = handles_tokens.then(|| {
        quote! {
            #[cfg(not(target_family = "wasm"))]
            fn open_lane(
                &self,
                lane: &::tidegate_sdk::Lane<'_>,
            ) -> ::core::option::Option<
                ::core::result::Result<
                    ::tidegate_sdk::tokens::BoxedStep<'_>,
                    ::tidegate_sdk::Failure,
                >,
            > {
                ::core::option::Option::Some(::tidegate_sdk::tokens::boxed(self, lane))
            }
        }
    });
    quote! {
        impl ::tidegate_sdk::Described for #self_type {
            const DESCRIPTION: ::tidegate_sdk::Description = ::tidegate_sdk::Description {
                name: #name,
                version: #version,
                reads: #reads,
                metrics: &[#(#metrics.declaration()),*],
                panics: ::tidegate_sdk::Panics::#panics,
                handles_tokens: #handles_tokens,
            };

            #open_lane
        }

        ::tidegate_sdk::__export_operator!(#export);
    }
}
