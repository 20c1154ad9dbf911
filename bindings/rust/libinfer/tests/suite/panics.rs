//! A panic of a host's closure ends the call, goes on in the caller, and leaves everything usable.
use crate::{session, tiny, tiny_path};
use libinfer::*;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned())
}

fn panics<T>(f: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("no panic"),
        Err(panic) => message(panic),
    }
}

#[test]
fn of_a_sampling_callback() {
    let mut session = session(&tiny());
    session.append_text("Once").unwrap();
    session.set_sampling(&Sampling::greedy().callback(|_: &mut [f32], _: &[i32]| panic!("in sampling"))).unwrap();
    assert_eq!(panics(|| session.generate(&GenerateOptions::new()).unwrap().text()), "in sampling");
    session.set_sampling(&Sampling::greedy()).unwrap();
    assert!(session.resume().next().unwrap().is_ok());
}

#[test]
fn of_a_reader() {
    struct Bad;
    impl Reader for Bad {
        fn length(&self) -> u64 {
            1000
        }
        fn read_at(&mut self, _: u64, _: &mut [u8]) -> io::Result<()> {
            panic!("in read_at")
        }
    }
    let reader = Source::reader("bad", |_| Ok(Box::new(Bad) as Box<dyn Reader>));
    assert_eq!(panics(|| Model::open(None, reader, &OpenOptions::new())), "in read_at");
    let opener = Source::reader("bad", |_| panic!("in open"));
    assert_eq!(panics(|| Model::open(None, opener, &OpenOptions::new())), "in open");
}

#[test]
fn of_an_executor() {
    struct Bad(Arc<AtomicUsize>);
    impl Executor for Bad {
        fn concurrency(&self) -> u32 {
            2
        }
        fn run(&self, count: u32, task: &(dyn Fn(u32) + Sync)) {
            if self.0.fetch_add(1, Ordering::Relaxed) == 5 {
                panic!("in run");
            }
            (0..count).for_each(task);
        }
    }
    let engine = Engine::builder().executor(Bad(Arc::new(AtomicUsize::new(0)))).build().unwrap();
    let model = engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
    let mut session = session(&model);
    session.append_text("Once upon a time").unwrap();
    assert_eq!(panics(|| session.step()), "in run");
    session.step().unwrap();
    assert_eq!(session.info().unwrap().computed, session.info().unwrap().length);
}

#[test]
fn of_a_request_s_closure() {
    let scheduler = Scheduler::new(&tiny(), SchedulerOptions::new()).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let options = RequestOptions::text("Once").generate(GenerateOptions::new().max_tokens(3));
    let watch = move |_: &RequestEvent<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        panic!("in watch")
    };
    scheduler.submit_with(&options, watch).unwrap();
    assert_eq!(panics(|| scheduler.run(None)), "in watch");
    scheduler.run(None).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1, "it is not called again");
    assert_eq!(Arc::strong_count(&calls), 1, "and dropped at the end");
}

#[test]
fn of_a_log_and_a_memory_hook() {
    struct Bad(AtomicUsize);
    impl MemoryHook for Bad {
        fn allocate(&self, _: u64) -> bool {
            if self.0.fetch_add(1, Ordering::Relaxed) == 20 {
                panic!("in allocate");
            }
            true
        }
        fn release(&self, _: u64) {}
    }
    let engine = Engine::builder().memory_hook(Bad(AtomicUsize::new(0))).build().unwrap();
    assert_eq!(panics(|| engine.open_model(tiny_path(), &OpenOptions::new())), "in allocate");
    engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
}
