use crate::{session, tiny, tiny_on};
use libinfer::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn tokens(n: u64) -> GenerateOptions {
    GenerateOptions::new().max_tokens(n).ignore_eos()
}

fn alone(model: &Model, text: &str, n: u64) -> String {
    let mut session = session(model);
    session.append_text(text).unwrap();
    let (text, _) = session.generate(&tokens(n)).unwrap().text().unwrap();
    text
}

const PROMPTS: [&str; 3] = ["Once upon a time", "The cat", "In the morning the sun"];

#[test]
fn requests_are_iterators_that_step() {
    let model = tiny();
    let scheduler = Scheduler::new(&model, SchedulerOptions::new()).unwrap();
    let requests: Vec<_> =
        PROMPTS.iter().map(|text| scheduler.submit(&RequestOptions::text(text).generate(tokens(10))).unwrap()).collect();
    for (request, prompt) in requests.iter().zip(PROMPTS) {
        let events: Vec<_> = request.events().map(Result::unwrap).collect();
        let text: String = events.iter().map(RequestEvent::text).collect();
        assert_eq!(text, alone(&model, prompt, 10));
        assert!(matches!(events[0], RequestEvent::Started { cached: 0, .. }));
        assert!(matches!(events.last(), Some(RequestEvent::Done { reason: FinishReason::Length, .. })));
        assert_eq!(request.events().count(), 0);
        assert_eq!(request.try_next().unwrap(), None);
        assert_eq!(request.info().unwrap().generated_tokens, 10);
    }
    let info = scheduler.info().unwrap();
    assert_eq!((info.submitted, info.finished, info.active), (3, 3, 0));
}

#[test]
fn closures_hear_of_their_tokens() {
    let model = tiny();
    let scheduler = Scheduler::new(&model, SchedulerOptions::new()).unwrap();
    let texts = Arc::new(Mutex::new(vec![String::new(); 3]));
    for (i, prompt) in PROMPTS.iter().enumerate() {
        let texts = texts.clone();
        let watch = move |event: &RequestEvent<'_>| texts.lock().unwrap()[i] += event.text();
        let request = scheduler.submit_with(&RequestOptions::text(prompt).generate(tokens(10)), watch).unwrap();
        assert_eq!(request.try_next().unwrap_err().kind(), ErrorKind::State);
    }
    scheduler.run(None).unwrap();
    for (text, prompt) in texts.lock().unwrap().iter().zip(PROMPTS) {
        assert_eq!(*text, alone(&model, prompt, 10));
    }
    assert_eq!(Arc::strong_count(&texts), 1, "the closures are dropped at the end");
}

#[test]
fn a_thread_steps_while_others_ask() {
    let model = tiny();
    let scheduler = Scheduler::new(&model, SchedulerOptions::new()).unwrap();
    let stop = CancelFlag::new().unwrap();
    let texts: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.is_set() {
                if !scheduler.step(None).unwrap() {
                    scheduler.wait().unwrap();
                }
            }
        });
        let askers: Vec<_> = PROMPTS
            .iter()
            .map(|prompt| {
                let scheduler = scheduler.clone();
                scope.spawn(move || {
                    let request = scheduler.submit(&RequestOptions::text(prompt).generate(tokens(20))).unwrap();
                    let text: String = request.events().map(|event| event.unwrap().text().to_owned()).collect();
                    text
                })
            })
            .collect();
        let texts = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
        stop.set();
        scheduler.wake();
        texts
    });
    for (text, prompt) in texts.iter().zip(PROMPTS) {
        assert_eq!(*text, alone(&model, prompt, 20));
    }
}

#[test]
fn choices_echo_and_checkpoints() {
    let model = tiny();
    let scheduler = Scheduler::new(&model, SchedulerOptions::new()).unwrap();
    let messages = [Message::user("Hello")];
    let options = RequestOptions::chat(&messages)
        .choices(3)
        .sampling(Sampling::default().temperature(2.0).seed(3).top_logprobs(2))
        .generate(tokens(8))
        .prompt_logprobs()
        .keep();
    let request = scheduler.submit(&options).unwrap();
    assert_eq!(request.checkpoint(0).unwrap_err().kind(), ErrorKind::State);
    let mut texts = vec![String::new(); 3];
    let (mut prompt, mut done) = (0, 0);
    for event in request.events() {
        match event.unwrap() {
            RequestEvent::Prompt { logprob, top, .. } => {
                assert!(prompt == 0 || logprob < 0.0 && top.len() == 2);
                prompt += 1;
            }
            RequestEvent::Token { choice, text, .. } => texts[choice as usize] += &text,
            RequestEvent::Done { error, .. } => {
                assert_eq!(error, None);
                done += 1;
            }
            _ => {}
        }
    }
    assert_eq!((prompt, done), (request.info().unwrap().prompt_tokens, 3));
    assert!(request.info().unwrap().prompt_logprob < 0.0);
    assert_ne!(texts[0], texts[1]);
    let checkpoint = request.checkpoint(1).unwrap();
    assert_eq!(checkpoint.info().unwrap().length, prompt + 8);
    assert_eq!(request.checkpoint(3).unwrap_err().kind(), ErrorKind::Argument);
    let more = scheduler.submit(&RequestOptions::text("!").append_to(&checkpoint).generate(tokens(2))).unwrap();
    assert!(more.events().all(|event| event.is_ok()));
    assert!(more.info().unwrap().cached_tokens >= prompt);
}

#[test]
fn requests_are_cancelled() {
    let scheduler = Scheduler::new(&tiny(), SchedulerOptions::new()).unwrap();
    let request = scheduler.submit(&RequestOptions::ids(&[1, 2, 3]).generate(tokens(400))).unwrap();
    assert!(scheduler.step(None).unwrap());
    let there = request.clone();
    std::thread::spawn(move || there.cancel()).join().unwrap();
    let last = request.events().last().unwrap().unwrap();
    assert!(matches!(last, RequestEvent::Done { reason: FinishReason::Cancelled, .. }), "{last:?}");
    let forgotten = scheduler.submit(&RequestOptions::ids(&[1, 2, 3]).generate(tokens(400))).unwrap();
    assert!(scheduler.step(None).unwrap());
    drop(forgotten);
    scheduler.run(None).unwrap();
    assert_eq!(scheduler.info().unwrap().cancelled, 2, "dropping its last handle cancels a request");
    let flag = CancelFlag::new().unwrap();
    let _request = scheduler.submit(&RequestOptions::ids(&[1, 2, 3]).generate(tokens(4))).unwrap();
    flag.set();
    assert_eq!(scheduler.step(Some(&flag)).unwrap_err().kind(), ErrorKind::Cancelled);
    scheduler.run(None).unwrap();
}

#[test]
fn the_last_drop_ends_what_runs() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let keep = ends.clone();
    let scheduler = Scheduler::new(&tiny(), SchedulerOptions::new()).unwrap();
    let watch = move |event: &RequestEvent<'_>| {
        if let RequestEvent::Done { reason, .. } = event {
            keep.lock().unwrap().push(*reason);
        }
    };
    let request = scheduler.submit_with(&RequestOptions::text("Once").generate(tokens(400)), watch).unwrap();
    assert!(scheduler.step(None).unwrap());
    drop(scheduler);
    assert!(ends.lock().unwrap().is_empty(), "the request keeps the scheduler");
    drop(request);
    assert_eq!(*ends.lock().unwrap(), [FinishReason::Cancelled]);
    assert_eq!(Arc::strong_count(&ends), 1);
}

#[test]
fn time_is_the_host_s() {
    let now = Arc::new(AtomicU64::new(1));
    let clock = now.clone();
    let options = SchedulerOptions::new().clock(move || Duration::from_secs(clock.load(Ordering::SeqCst)));
    let scheduler = Scheduler::new(&tiny(), options).unwrap();
    let options = RequestOptions::text("Once").generate(tokens(400)).time_limit(Duration::from_secs(10));
    let request = scheduler.submit(&options).unwrap();
    for _ in 0..5 {
        assert!(scheduler.step(None).unwrap());
    }
    now.store(20, Ordering::SeqCst);
    let last = request.events().last().unwrap().unwrap();
    assert!(matches!(last, RequestEvent::Done { reason: FinishReason::Time, .. }), "{last:?}");
    let info = request.info().unwrap();
    assert_eq!((info.submitted, info.ended), (Duration::from_secs(1), Duration::from_secs(20)));
}

#[test]
fn what_is_refused_is_named() {
    let model = tiny_on(Engine::builder());
    let scheduler = Scheduler::new(&model, SchedulerOptions::new().max_waiting(1)).unwrap();
    let dropped = Arc::new(());
    let keep = dropped.clone();
    let error = scheduler
        .submit_with(&RequestOptions::ids(&[-1]), move |_| {
            let _ = &keep;
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Token, "{error}");
    assert_eq!(Arc::strong_count(&dropped), 1, "a refused closure is dropped");
    let error = scheduler.submit(&RequestOptions::text("x").choices(129)).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("n")), "{error}");
    let error = scheduler.submit(&RequestOptions::text("x").sampling(Sampling::greedy().top_p(7.0))).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("top_p")), "{error}");
    let _one = scheduler.submit(&RequestOptions::text("x")).unwrap();
    assert_eq!(scheduler.submit(&RequestOptions::text("x")).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn an_error_of_a_request_is_its_own() {
    let scheduler = Scheduler::new(&tiny(), SchedulerOptions::new()).unwrap();
    let refuse = Sampling::greedy().callback(|_: &mut [f32], _: &[i32]| Err(Error::new(ErrorKind::Limit, "no")));
    let bad = scheduler.submit(&RequestOptions::text("Once").sampling(refuse)).unwrap();
    let good = scheduler.submit(&RequestOptions::text("Once").generate(tokens(4))).unwrap();
    match bad.events().last().unwrap().unwrap() {
        RequestEvent::Done { reason: FinishReason::Error, error: Some(error), .. } => {
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        }
        other => panic!("{other:?}"),
    }
    let last = good.events().last().unwrap().unwrap();
    assert!(matches!(last, RequestEvent::Done { reason: FinishReason::Length, .. }), "{last:?}");
}

#[test]
fn a_closure_must_not_step() {
    let scheduler = Scheduler::new(&tiny(), SchedulerOptions::new()).unwrap();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let again = |scheduler: &Scheduler, kinds: &Mutex<Vec<ErrorKind>>| {
        kinds.lock().unwrap().push(scheduler.step(None).unwrap_err().kind());
        kinds.lock().unwrap().push(scheduler.wait().unwrap_err().kind());
    };
    let (there, told) = (scheduler.clone(), kinds.clone());
    let watch = move |event: &RequestEvent<'_>| {
        if let RequestEvent::End = event {
            again(&there, &told);
        }
    };
    scheduler.submit_with(&RequestOptions::text("Once").generate(tokens(2)), watch).unwrap();
    let (there, told) = (scheduler.clone(), kinds.clone());
    let sampling = Sampling::greedy().callback(move |_: &mut [f32], _: &[i32]| {
        again(&there, &told);
        Ok(())
    });
    let request = scheduler.submit(&RequestOptions::text("Once").generate(tokens(1)).sampling(sampling)).unwrap();
    assert!(request.events().all(|event| event.is_ok()));
    scheduler.run(None).unwrap();
    assert_eq!(*kinds.lock().unwrap(), [ErrorKind::State; 4]);
}
