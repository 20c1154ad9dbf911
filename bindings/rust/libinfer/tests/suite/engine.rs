//! What a host lends an engine, and that everything is given back.
use crate::{bits, session, tiny, tiny_on, tiny_path, TempDir};
use libinfer::*;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Counts blocks and bytes, and refuses the block number `fail`.
#[derive(Default)]
struct Counter {
    blocks: AtomicI64,
    bytes: AtomicI64,
    asked: AtomicU64,
    fail: AtomicU64,
}

struct Hook(Arc<Counter>);

impl MemoryHook for Hook {
    fn allocate(&self, bytes: u64) -> bool {
        if self.0.asked.fetch_add(1, Ordering::SeqCst) + 1 == self.0.fail.load(Ordering::SeqCst) {
            return false;
        }
        self.0.blocks.fetch_add(1, Ordering::SeqCst);
        self.0.bytes.fetch_add(bytes as i64, Ordering::SeqCst);
        true
    }
    fn release(&self, bytes: u64) {
        self.0.blocks.fetch_sub(1, Ordering::SeqCst);
        self.0.bytes.fetch_sub(bytes as i64, Ordering::SeqCst);
    }
}

fn counted(fail: u64) -> (Engine, Arc<Counter>) {
    let counter = Arc::new(Counter::default());
    let engine = Engine::builder().threads(1).cache_bytes(4 << 20).memory_hook(Hook(counter.clone())).build().unwrap();
    counter.asked.store(0, Ordering::SeqCst);
    counter.fail.store(fail, Ordering::SeqCst);
    (engine, counter)
}

/// Something of everything.
fn everything(engine: &Engine, dir: &TempDir) -> Result<()> {
    let model = engine.open_model(tiny_path(), &OpenOptions::new())?;
    let tokenizer = model.tokenizer().ok_or_else(|| Error::new(ErrorKind::Missing, "tokenizer"))?;
    let template = Template::parse(Some(engine), "{{ messages }}")?;
    template.render(r#"{"messages":[]}"#, &RenderOptions::new())?;
    let mut session = model.session(&SessionOptions::new())?;
    session.append(&tokenizer.encode("Once upon a time")?)?;
    session.set_sampling(&Sampling::default().callback(|_: &mut [f32], _: &[i32]| Ok(())))?;
    session.step()?;
    let mut fork = session.fork()?;
    session.generate(&GenerateOptions::new().max_tokens(4).stop("zzz"))?.text()?;
    let checkpoint = session.checkpoint()?;
    let store = Store::in_memory(engine, &StoreOptions::new())?;
    store.put("x", &checkpoint, false, None)?;
    let path = dir.join("state");
    checkpoint.save(&path, &SaveOptions::new())?;
    fork.restore(&Checkpoint::open(&model, &path, &LoadOptions::new())?)?;
    fork.score(&[1, 2], 2)?;
    let scheduler = Scheduler::new(&model, SchedulerOptions::new())?;
    let options = RequestOptions::text("Once").choices(2).generate(GenerateOptions::new().max_tokens(2));
    let request = scheduler.submit(&options)?;
    scheduler.submit_with(&options, |_| {})?;
    for event in request.events() {
        if let RequestEvent::Done { error: Some(error), .. } = event? {
            return Err(error);
        }
    }
    scheduler.run(None)
}

#[test]
fn all_memory_is_given_back() {
    let (engine, counter) = counted(0);
    everything(&engine, &TempDir::new()).unwrap();
    assert!(counter.asked.load(Ordering::SeqCst) > 100);
    drop(engine);
    assert_eq!(counter.blocks.load(Ordering::SeqCst), 0);
    assert_eq!(counter.bytes.load(Ordering::SeqCst), 0);
}

#[test]
fn every_refused_block_is_an_error_and_no_leak() {
    let (engine, counter) = counted(0);
    let dir = TempDir::new();
    everything(&engine, &dir).unwrap();
    let total = counter.asked.load(Ordering::SeqCst);
    drop(engine);
    let mut refused = 0;
    for fail in (1..=total).step_by(1 + total as usize / 150) {
        let (engine, counter) = counted(fail);
        if let Err(error) = everything(&engine, &dir) {
            assert_eq!(error.kind(), ErrorKind::NoMemory, "block {fail}: {error:?}");
            refused += 1;
        }
        counter.fail.store(0, Ordering::SeqCst);
        everything(&engine, &dir).unwrap();
        drop(engine);
        assert_eq!(counter.blocks.load(Ordering::SeqCst), 0, "block {fail}");
    }
    assert!(refused > 20, "only {refused} of {total} blocks were missed");
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let (engine, counter) = counted(0);
    let model = engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
    drop(engine);
    let mut session = session(&model);
    let (file, template) = (model.file().unwrap(), model.template().unwrap());
    drop(model);
    session.append(&[1, 2]).unwrap();
    session.step().unwrap();
    let checkpoint = session.checkpoint().unwrap();
    drop(session);
    let scheduler = Scheduler::new(checkpoint.model(), SchedulerOptions::new()).unwrap();
    let request = scheduler.submit(&RequestOptions::resume(&checkpoint)).unwrap();
    drop((checkpoint, scheduler));
    assert!(counter.blocks.load(Ordering::SeqCst) > 0);
    request.cancel();
    let last = request.events().last().unwrap().unwrap();
    assert!(matches!(last, RequestEvent::Done { reason: FinishReason::Cancelled, .. }), "{last:?}");
    drop(request);
    drop((file, template));
    assert_eq!(counter.blocks.load(Ordering::SeqCst), 0);
}

#[test]
fn a_host_s_threads_give_the_same_bits() {
    struct Scoped(Arc<AtomicU32>);
    impl Executor for Scoped {
        fn concurrency(&self) -> u32 {
            3
        }
        fn run(&self, count: u32, task: &(dyn Fn(u32) + Sync)) {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::thread::scope(|scope| {
                for index in 0..count {
                    scope.spawn(move || task(index));
                }
            });
        }
    }
    let run = |model: &Model| {
        let mut session = session(model);
        session.append(&[10, 11, 12, 13, 14, 15]).unwrap();
        session.step().unwrap();
        bits(session.logits().unwrap())
    };
    let jobs = Arc::new(AtomicU32::new(0));
    let engine = Engine::builder().executor(Scoped(jobs.clone())).build().unwrap();
    let lent = engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
    assert_eq!(run(&lent), run(&tiny()));
    assert!(jobs.load(Ordering::Relaxed) > 0);
    assert_eq!(lent.engine().unwrap().info().unwrap().threads, 3);
}

#[test]
fn an_executor_that_cheats_fails_the_step() {
    struct Lazy;
    impl Executor for Lazy {
        fn concurrency(&self) -> u32 {
            2
        }
        fn run(&self, count: u32, task: &(dyn Fn(u32) + Sync)) {
            (0..count - 1).for_each(task);
            task(count + 7); // no such task: nothing happens
        }
    }
    let engine = Engine::builder().executor(Lazy).build().unwrap();
    let model = engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
    let mut session = session(&model);
    session.append(&[10, 11, 12]).unwrap();
    assert_eq!(session.step().unwrap_err().kind(), ErrorKind::Host);
    assert_eq!(session.info().unwrap().computed, 0);
}

#[test]
fn bad_options_are_refused() {
    let error = Engine::builder().threads(257).build().unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("threads")), "{error}");
    assert!(Engine::builder().cpu(Cpu::Unknown).build().is_err());
    assert_eq!(Engine::builder().cache_dir("/tmp/x").build().unwrap_err().kind(), ErrorKind::Argument);
    assert!(Engine::builder().cache_bytes(1).cache_dir("").build().is_err());
}

#[test]
fn the_engine_says_what_it_uses() {
    let model = tiny_on(Engine::builder().cpu(Cpu::Scalar).numerics(Numerics::Precise).kv_budget(1 << 20));
    let info = model.engine().unwrap().info().unwrap();
    assert_eq!((info.cpu, info.numerics, info.kv_budget), (Cpu::Scalar, Numerics::Precise, 1 << 20));
    assert_eq!(Cpu::Avx2.name(), "avx2");
    assert_eq!(Cpu::from_name("scalar"), Some(Cpu::Scalar));
    assert_eq!(Cpu::from_name("abacus"), None);
    assert!(version().starts_with("1."));
    assert!(numerics_version() >= 1);
    assert!(capabilities().contains("network: none"), "{}", capabilities());
}

#[test]
fn the_log_is_a_closure() {
    let (dir, lines) = (TempDir::new(), Arc::new(Mutex::new(Vec::new())));
    let keep = lines.clone();
    let cache = dir.join("cache");
    let engine = Engine::builder()
        .threads(1)
        .cache_bytes(1 << 10) // so little that everything is evicted
        .cache_dir(&cache)
        .log(LogLevel::Debug, move |level, text| keep.lock().unwrap().push((level, text.to_owned())))
        .build()
        .unwrap();
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, "no folder").unwrap();
    let model = engine.open_model(tiny_path(), &OpenOptions::new()).unwrap();
    let mut session = session(&model);
    session.append(&(10..300).collect::<Vec<_>>()).unwrap();
    session.step().unwrap();
    drop(session);
    let _ = engine.cache_flush(None);
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|(level, text)| *level == LogLevel::Warning && text.contains("not written")), "{lines:?}");
}

#[test]
fn memory_is_planned_and_capped() {
    let (open, one) = (OpenOptions::new(), EstimateOptions::new().n_ctx(256).threads(1));
    let estimate = Estimate::of(None, tiny_path(), &open, &one).unwrap();
    assert_eq!(estimate.n_ctx, 256);
    let more = Estimate::of(None, tiny_path(), &open, &one.clone().sessions(200)).unwrap();
    assert!(more.kv_bytes > estimate.kv_bytes && more.total_bytes > estimate.total_bytes);
    let run = |limit| {
        let engine = Engine::builder().threads(1).memory_limit(limit).build()?;
        let model = engine.open_model(tiny_path(), &OpenOptions::new())?;
        let mut session = model.session(&SessionOptions::new().n_ctx(256))?;
        session.append(&[10; 255])?;
        session.step()?;
        session.generate(&GenerateOptions::new().ignore_eos())?.text()?;
        engine.info()
    };
    let info = run(estimate.memory_bytes).unwrap();
    assert!(info.memory_peak <= info.memory_limit && info.memory_bytes > 0, "{info:?}");
    let error = run(info.memory_peak / 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMemory, "{error}");
    assert!(error.text().contains("memory_limit"), "{error}");
    let error = Estimate::of(None, tiny_path(), &open, &EstimateOptions::new().budget(1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
