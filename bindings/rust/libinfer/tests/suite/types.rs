//! Which thread may use what, as types. That a Session is not Sync is in tests/compile_fail.rs.
use libinfer::*;

fn shared<T: Send + Sync + Clone + 'static>() {}
fn sent<T: Send + 'static>() {}

#[test]
fn handles_may_be_used_from_any_thread() {
    shared::<Engine>();
    shared::<Model>();
    shared::<Tokenizer>();
    shared::<Template>();
    shared::<File>();
    shared::<Adapter>();
    shared::<Checkpoint>();
    shared::<Store>();
    shared::<CancelFlag>();
    shared::<Scheduler>();
    shared::<Request>();
    shared::<Sampling>();
    shared::<OpenOptions>();
    shared::<GenerateOptions>();
}

#[test]
fn sessions_and_errors_may_be_sent() {
    sent::<Session>();
    sent::<EngineBuilder>();
    sent::<SchedulerOptions>();
    shared::<Error>();
    shared::<Event<'static>>();
    shared::<RequestEvent<'static>>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<Error>();
}
