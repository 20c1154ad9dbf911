use crate::{session, tiny};
use libinfer::*;
use std::sync::{Arc, Mutex};

const QUESTION: &[Message<'static>] = &[Message { role: "user", content: "Once upon a time" }];

fn answer(model: &Model, options: &GenerateOptions) -> (String, FinishReason) {
    let mut session = session(model);
    session.append_chat(QUESTION).unwrap();
    session.generate(options).unwrap().text().unwrap()
}

#[test]
fn an_answer_is_an_iterator() {
    let mut session = session(&tiny());
    session.append_chat(QUESTION).unwrap();
    let prompt = session.info().unwrap().length;
    let (mut tokens, mut text, mut reason) = (0, String::new(), None);
    let mut generation = session.generate(&GenerateOptions::new().max_tokens(12)).unwrap();
    for event in &mut generation {
        let event = event.unwrap();
        tokens += u64::from(matches!(event, Event::Token { .. }));
        text.push_str(event.text());
        reason = event.finish_reason().or(reason);
    }
    assert!(generation.next().is_none(), "it stays ended");
    assert_eq!(reason, Some(FinishReason::Length));
    assert_eq!(tokens, 12);
    assert_eq!(session.info().unwrap().length, prompt + 12);
    assert!(!text.is_empty());
}

#[test]
fn text_is_the_same_borrowed_and_owned() {
    let model = tiny();
    let options = GenerateOptions::new().max_tokens(12);
    let (whole, _) = answer(&model, &options);
    let mut session = session(&model);
    session.append_chat(QUESTION).unwrap();
    let mut generation = session.generate(&options).unwrap();
    let mut text = String::new();
    while let Some(event) = generation.next_event().unwrap() {
        text += event.text();
    }
    assert_eq!(text, whole);
}

#[test]
fn a_dropped_answer_can_be_resumed() {
    let model = tiny();
    let options = GenerateOptions::new().max_tokens(12);
    let (whole, _) = answer(&model, &options);
    let mut session = session(&model);
    session.append_chat(QUESTION).unwrap();
    let first: String = session.generate(&options).unwrap().take(4).map(|event| event.unwrap().text().to_owned()).collect();
    let (rest, reason) = session.resume().text().unwrap();
    assert_eq!(first + &rest, whole);
    assert_eq!(reason, FinishReason::Length);
    assert_eq!(session.resume().next().unwrap().unwrap_err().kind(), ErrorKind::State);
}

#[test]
fn stop_strings_end_it() {
    let model = tiny();
    let (whole, _) = answer(&model, &GenerateOptions::new().max_tokens(24));
    let middle: String = whole.chars().skip(5).take(3).collect();
    let stop = &middle;
    let mut session = session(&model);
    session.append_chat(QUESTION).unwrap();
    let options = GenerateOptions::new().max_tokens(24).stop("\u{1}never").stop(stop.as_str());
    let events: Vec<_> = session.generate(&options).unwrap().map(Result::unwrap).collect();
    let text: String = events.iter().map(Event::text).collect();
    assert_eq!(text, whole[..whole.find(stop.as_str()).unwrap()]);
    match events.last() {
        Some(Event::Done { reason, stop_index, .. }) => assert_eq!((*reason, *stop_index), (FinishReason::StopString, Some(1))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_name_the_field() {
    let model = tiny();
    let mut session = session(&model);
    let error = session.generate(&GenerateOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State, "{error}");
    session.append_text("Once").unwrap();
    let error = session.generate(&GenerateOptions::new().repeat_guard(3)).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("repeat_guard")), "{error}");
    let error = session.generate(&GenerateOptions::new().stop_id(1 << 24)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Token, "{error}");
    assert_eq!(session.info().unwrap().length, session.tokens().unwrap().len() as u64);
}

#[test]
fn the_context_ends_it_or_is_shifted() {
    let model = tiny();
    let mut session = model.session(&SessionOptions::new().n_ctx(32)).unwrap();
    session.append_text("Once upon a time").unwrap();
    let (_, reason) = session.generate(&GenerateOptions::new().ignore_eos()).unwrap().text().unwrap();
    assert_eq!(reason, FinishReason::Context);
    session.truncate(8).unwrap();
    let options = GenerateOptions::new().ignore_eos().max_tokens(60).shift(4, 8);
    let events: Vec<_> = session.generate(&options).unwrap().map(Result::unwrap).collect();
    assert!(events.iter().any(|event| matches!(event, Event::Shift { dropped: 8, .. })));
    assert_eq!(events.last().and_then(Event::finish_reason), Some(FinishReason::Length));
    assert!(session.info().unwrap().approximate);
}

#[test]
fn sampling_follows_its_seed_and_reports_logprobs() {
    let model = tiny();
    let draw = |seed| {
        let mut session = session(&model);
        session.append_text("Once upon a time").unwrap();
        session.set_sampling(&Sampling::default().temperature(1.5).seed(seed).logprobs().top_logprobs(3)).unwrap();
        let mut ids = Vec::new();
        for event in session.generate(&GenerateOptions::new().max_tokens(16)).unwrap() {
            if let Event::Token { id, logprob, top, .. } = event.unwrap() {
                assert!(logprob < 0.0 && top.len() == 3 && top[0].logprob >= top[1].logprob);
                ids.push(id);
            }
        }
        ids
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn refused_sampling_leaves_the_old() {
    let mut session = session(&tiny());
    let error = session.set_sampling(&Sampling::greedy().temperature(f32::NAN)).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("temperature")), "{error}");
    let error = session.set_sampling(&Sampling::greedy().bias(-1, 1.0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Token, "{error}");
}

#[test]
fn bias_and_callback_choose_the_token() {
    let mut session = session(&tiny());
    session.append_text("Once upon a time").unwrap();
    session.step().unwrap();
    session.set_sampling(&Sampling::greedy().bias(77, 1e6)).unwrap();
    assert_eq!(session.sample().unwrap().id, 77);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = seen.clone();
    let only = move |logits: &mut [f32], ids: &[i32]| {
        keep.lock().unwrap().extend_from_slice(ids);
        logits.fill(f32::NEG_INFINITY);
        logits[78] = 0.0;
        Ok(())
    };
    session.set_sampling(&Sampling::greedy().callback(only)).unwrap();
    assert_eq!(session.sample().unwrap().id, 78);
    assert_eq!(*seen.lock().unwrap(), session.tokens().unwrap());
    // a fork keeps the closure, also when the session is gone
    let mut fork = session.fork().unwrap();
    drop(session);
    assert_eq!(fork.sample().unwrap().id, 78);
    fork.set_sampling(&Sampling::greedy()).unwrap();
    assert_eq!(Arc::strong_count(&seen), 1, "the closure is dropped with its last user");
}

#[test]
fn an_error_of_the_callback_is_that_of_the_call() {
    let mut session = session(&tiny());
    session.append_text("Once").unwrap();
    let refuse = |_: &mut [f32], _: &[i32]| Err(Error::new(ErrorKind::Limit, "no more for today"));
    session.set_sampling(&Sampling::greedy().callback(refuse)).unwrap();
    let error = session.generate(&GenerateOptions::new()).unwrap().text().unwrap_err();
    assert_eq!((error.kind(), error.text()), (ErrorKind::Limit, "no more for today"));
    session.set_sampling(&Sampling::greedy().callback(|logits: &mut [f32], _: &[i32]| {
        logits[0] = f32::NAN;
        Ok(())
    }))
    .unwrap();
    assert_eq!(session.resume().text().unwrap_err().kind(), ErrorKind::Host);
    session.set_sampling(&Sampling::greedy()).unwrap();
    assert!(session.resume().next().unwrap().is_ok(), "the answer goes on");
}

#[test]
fn another_thread_cancels() {
    let mut session = session(&tiny());
    session.append_text("Once upon a time").unwrap();
    let flag = CancelFlag::new().unwrap();
    session.set_cancel(Some(&flag));
    let error = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for _ in 0..100 {
                let long = GenerateOptions::new().ignore_eos().max_tokens(400);
                if let Err(error) = session.generate(&long).and_then(Generation::text) {
                    return error;
                }
                session.truncate(4).unwrap();
            }
            Error::new(ErrorKind::Internal, "100 answers, and nothing cancelled them")
        });
        flag.set();
        worker.join().unwrap()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(flag.is_set());
    flag.clear();
    session.truncate(4).unwrap();
    let (text, _) = session.generate(&GenerateOptions::new().max_tokens(5)).unwrap().text().unwrap();
    assert!(!text.is_empty(), "the session goes on");
}

#[test]
fn a_session_may_move_to_another_thread() {
    let model = tiny();
    let mut session = session(&model);
    session.append_chat(QUESTION).unwrap();
    let options = GenerateOptions::new().max_tokens(12);
    let there = options.clone();
    let text = std::thread::spawn(move || session.generate(&there).unwrap().text().unwrap()).join().unwrap();
    assert_eq!(text, answer(&model, &options));
}
