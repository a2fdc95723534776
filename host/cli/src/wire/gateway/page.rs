//! The page of the admin API, as the gateway shows it to those whose key is for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_control::admin::ReadOnlyPage;
use tidegate_gateway::endpoints::Page;
use tidegate_gateway::exchange::{Answered, Method};

pub(super) struct PageOfKeys(pub(super) Arc<ReadOnlyPage>);

impl Page for PageOfKeys {
    fn answer(
        &self,
        key: &str,
        method: Method,
        path: &str,
        query: Option<&str>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let answer = self.0.answer(key, method, path, query);
        Box::pin(async move { Answered::passed_on(answer.await) })
    }

    fn is_open(&self, path: &str) -> bool {
        // The address without its last `/` leads to that with it.
        path.is_empty() || ReadOnlyPage::is_file(path)
    }
}
