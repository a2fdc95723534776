//! The documents of the repository: their links lead somewhere, their commands exist, and what a guide has a newcomer
//! type is typed. How a page is written so that this can be is in `docs/README.md`.

mod commands;
mod expected;
mod guides;
mod links;
mod page;
mod reference;
mod session;
