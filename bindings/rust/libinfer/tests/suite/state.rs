//! Checkpoints and their files, stores, the prefix cache, graft and shift.
use crate::{bits, session, tiny, tiny_on, TempDir};
use libinfer::*;

fn told(session: &mut Session) -> String {
    session.resume().text().unwrap().0
}

/// A session in the middle of an answer.
fn begun(model: &Model) -> Session {
    let mut session = session(model);
    session.append_text("Once upon a time").unwrap();
    session.set_sampling(&Sampling::default().seed(5)).unwrap();
    let generation = session.generate(&GenerateOptions::new().max_tokens(20)).unwrap();
    assert_eq!(generation.take(5).filter(Result::is_ok).count(), 5);
    session
}

#[test]
fn an_answer_goes_on_from_a_checkpoint() {
    let model = tiny();
    let mut session = begun(&model);
    let checkpoint = session.checkpoint().unwrap();
    assert!(checkpoint.info().unwrap().generating);
    assert_eq!(checkpoint.tokens().unwrap(), session.tokens().unwrap());
    let rest = told(&mut session);
    drop(session);
    assert_eq!(told(&mut checkpoint.session().unwrap()), rest);
    let mut other = crate::session(&model);
    other.append(&[1, 2, 3]).unwrap();
    other.restore(&checkpoint).unwrap();
    assert_eq!(told(&mut other), rest);
    assert_eq!(crate::session(&tiny()).restore(&checkpoint).unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn files_hold_all_of_it() {
    let (model, dir) = (tiny(), TempDir::new());
    let mut session = begun(&model);
    let checkpoint = session.checkpoint().unwrap();
    let rest = told(&mut session);
    let (whole, packed, delta) = (dir.join("whole"), dir.join("packed"), dir.join("delta"));
    checkpoint.save(&whole, &SaveOptions::new()).unwrap();
    let open = |path| Checkpoint::open(&model, path, &LoadOptions::new().verify(Verify::Load));
    assert_eq!(told(&mut open(&whole).unwrap().session().unwrap()), rest);
    session.checkpoint().unwrap().save(&delta, &SaveOptions::new().parent(&whole)).unwrap();
    assert_eq!(open(&delta).unwrap().tokens().unwrap(), session.tokens().unwrap());
    match checkpoint.save(&packed, &SaveOptions::new().zstd(3)) {
        Ok(()) => assert_eq!(told(&mut open(&packed).unwrap().session().unwrap()), rest),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
    let copy = dir.join("copy");
    Checkpoint::clone_file(None, &whole, &copy, None).unwrap();
    assert_eq!(open(&copy).unwrap().info().unwrap().length, checkpoint.info().unwrap().length);
}

#[test]
fn bad_files_are_refused_by_name() {
    let (model, dir) = (tiny(), TempDir::new());
    let path = dir.join("state");
    let error = Checkpoint::open(&model, &path, &LoadOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::NotFound, path.to_str()), "{error}");
    begun(&model).checkpoint().unwrap().save(&path, &SaveOptions::new()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = Checkpoint::open(&model, &path, &LoadOptions::new().verify(Verify::Load).map(Map::Read)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    let error = begun(&model).checkpoint().unwrap().save(dir.join("no/folder"), &SaveOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let flag = CancelFlag::new().unwrap();
    flag.set();
    let error = begun(&model).checkpoint().unwrap().save(dir.join("new"), &SaveOptions::new().cancel(&flag)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!dir.join("new").exists());
}

fn use_store(model: &Model, store: &Store) {
    let checkpoint = begun(model).checkpoint().unwrap();
    for name in ["b", "a", "ä"] {
        store.put(name, &checkpoint, false, None).unwrap();
    }
    assert_eq!(store.put("a", &checkpoint, false, None).unwrap_err().kind(), ErrorKind::Exists);
    store.put("a", &checkpoint, true, None).unwrap();
    assert_eq!(store.put("no/slash", &checkpoint, true, None).unwrap_err().kind(), ErrorKind::Argument);
    store.branch("a", "c", false).unwrap();
    store.rename("c", "d", false).unwrap();
    let names: Vec<_> = store.entries().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names, ["a", "b", "d", "ä"]);
    assert_eq!(store.next(Some("b")).unwrap().unwrap().name, "d");
    assert_eq!(store.next(Some("ä")).unwrap(), None);
    assert_eq!(store.info().unwrap().count, 4);
    let got = store.get(model, "d", None).unwrap();
    assert_eq!(got.tokens().unwrap(), checkpoint.tokens().unwrap());
    store.delete("d").unwrap();
    assert_eq!(store.get(model, "d", None).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(told(&mut got.session().unwrap()), told(&mut checkpoint.session().unwrap()));
}

#[test]
fn stores_in_memory_and_in_folders() {
    let (model, dir) = (tiny(), TempDir::new());
    let engine = model.engine().unwrap();
    use_store(&model, &Store::in_memory(&engine, &StoreOptions::new()).unwrap());
    use_store(&model, &Store::in_folder(&engine, dir.join("store"), &StoreOptions::new()).unwrap());
    let small = Store::in_memory(&engine, &StoreOptions::new().max_count(1)).unwrap();
    let checkpoint = begun(&model).checkpoint().unwrap();
    small.put("one", &checkpoint, false, None).unwrap();
    assert_eq!(small.put("two", &checkpoint, false, None).unwrap_err().kind(), ErrorKind::Limit);
    let error = Store::in_folder(&engine, dir.join("no/parent"), &StoreOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_stored_callback_whose_owners_are_gone_fails_in_order() {
    let model = tiny();
    let store = Store::in_memory(&model.engine().unwrap(), &StoreOptions::new()).unwrap();
    let mut session = session(&model);
    session.append_text("Once").unwrap();
    session.step().unwrap();
    session.set_sampling(&Sampling::greedy().callback(|logits: &mut [f32], _: &[i32]| {
        logits.fill(f32::NEG_INFINITY);
        logits[9] = 1.0;
        Ok(())
    }))
    .unwrap();
    store.put("kept", &session.checkpoint().unwrap(), false, None).unwrap();
    let mut got = store.get(&model, "kept", None).unwrap().session().unwrap();
    assert_eq!(got.sample().unwrap().id, 9, "while the first session has it");
    drop(session);
    assert_eq!(got.sample().unwrap_err().kind(), ErrorKind::Host);
    got.set_sampling(&Sampling::greedy()).unwrap();
    got.sample().unwrap();
}

#[test]
fn the_prefix_cache_shares() {
    let model = tiny_on(Engine::builder().cache_bytes(16 << 20));
    let ids: Vec<i32> = (10..210).collect();
    let run = |options: &SessionOptions| {
        let mut session = model.session(options).unwrap();
        session.append(&ids).unwrap();
        session.step().unwrap();
        (bits(session.logits().unwrap()), session.cache_report().unwrap())
    };
    let (first, report) = run(&SessionOptions::new());
    assert_eq!((report.reason, report.reused), (CacheReason::Empty, 0));
    let (second, report) = run(&SessionOptions::new());
    assert_eq!((report.reason, report.reused), (CacheReason::Hit, 199));
    assert_eq!(first, second);
    let (_, report) = run(&SessionOptions::new().salt(*b"tenant"));
    assert_eq!((report.reason, report.own_reason), (CacheReason::OtherSalt, CacheReason::Empty));
    let (_, report) = run(&SessionOptions::new().no_cache_lookup());
    assert_eq!((report.reason, report.reused), (CacheReason::Off, 0));
    let engine = model.engine().unwrap();
    let stats = engine.cache_stats().unwrap();
    assert!(stats.hits >= 1 && stats.saved >= 199 && stats.bytes > 0, "{stats:?}");
    assert_eq!(engine.cache_flush(None).unwrap_err().kind(), ErrorKind::State);
    engine.cache_clear().unwrap();
    assert_eq!(engine.cache_stats().unwrap().nodes, 0);
}

#[test]
fn the_prefix_cache_comes_back_from_disk() {
    let dir = TempDir::new();
    let ids: Vec<i32> = (10..210).collect();
    let reused = || {
        let model = tiny_on(Engine::builder().cache_bytes(16 << 20).cache_dir(dir.join("cache")));
        let mut session = session(&model);
        session.append(&ids).unwrap();
        session.step().unwrap();
        let reused = session.cache_report().unwrap().reused;
        drop(session);
        model.engine().unwrap().cache_flush(None).unwrap();
        reused
    };
    assert_eq!(reused(), 0);
    assert!(reused() > 0);
}

#[test]
fn grafts_and_shifts_are_marked() {
    let model = tiny();
    let mut session = session(&model);
    session.append(&(10..40).collect::<Vec<_>>()).unwrap();
    session.step().unwrap();
    let checkpoint = session.checkpoint().unwrap();
    session.shift(4, 8).unwrap();
    assert_eq!(session.info().unwrap().length, 22);
    assert!(session.info().unwrap().approximate);
    assert_eq!(session.shift(20, 8).unwrap_err().kind(), ErrorKind::Argument);
    let mut other = crate::session(&model);
    other.append(&[1, 2]).unwrap();
    other.step().unwrap();
    assert!(other.graft(&checkpoint, 10..20, 2).unwrap() >= 2);
    assert_eq!(other.tokens().unwrap()[2..], (20..30).collect::<Vec<_>>());
    assert!(other.info().unwrap().approximate);
    assert_eq!(other.graft(&checkpoint, 10..99, 0).unwrap_err().kind(), ErrorKind::Argument);
    let mut exact = crate::session(&model);
    assert_eq!(exact.graft(&checkpoint, 0..30, 0).unwrap(), 0);
    assert!(!exact.info().unwrap().approximate);
}
