use crate::{bits, session, tiny, tiny_on};
use libinfer::*;

#[test]
fn a_step_gives_logits() {
    let model = tiny();
    let mut session = session(&model);
    assert_eq!(session.logits().unwrap_err().kind(), ErrorKind::State);
    session.append(&[10, 11, 12]).unwrap();
    assert_eq!(session.step().unwrap(), 3);
    assert_eq!(session.logits().unwrap().len(), model.info().unwrap().vocab_size as usize);
    assert_eq!(session.logits_row(0).unwrap().position, 2);
    assert_eq!(session.logits_row(1).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(session.tokens().unwrap(), [10, 11, 12]);
    assert_eq!(session.tokens_in(1..3).unwrap(), [11, 12]);
    assert_eq!(session.tokens_in(1..4).unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn rows_are_those_that_were_asked_for() {
    let model = tiny();
    let ids = [10, 11, 12, 13];
    let mut all = session(&model);
    all.append(&ids).unwrap();
    all.step_rows(Rows::All).unwrap();
    assert_eq!(all.info().unwrap().logits_rows, 4);
    let mut some = session(&model);
    some.append(&ids).unwrap();
    let error = some.step_rows(Rows::Mask(&[true, false])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    assert_eq!(some.info().unwrap().computed, 0);
    some.step_rows(Rows::Mask(&[false, true, false, true])).unwrap();
    assert_eq!(some.info().unwrap().logits_rows, 2);
    for (row, position) in [(0, 1), (1, 3)] {
        let logits = some.logits_row(row).unwrap();
        assert_eq!(logits.position, position);
        assert_eq!(bits(logits.values), bits(all.logits_row(position).unwrap().values));
    }
    let mut none = session(&model);
    none.append(&ids).unwrap();
    none.step_rows(Rows::None).unwrap();
    assert_eq!(none.logits().unwrap_err().kind(), ErrorKind::State);
}

#[test]
fn sessions_step_together_with_the_same_bits() {
    let model = tiny();
    let prompts: [&[i32]; 3] = [&[10, 11, 12, 13, 14], &[20], &[30, 31]];
    let mut alone = Vec::new();
    for prompt in prompts {
        let mut session = session(&model);
        session.append(prompt).unwrap();
        session.step().unwrap();
        alone.push(bits(session.logits().unwrap()));
    }
    let mut sessions: Vec<_> = prompts.iter().map(|_| session(&model)).collect();
    for (session, prompt) in sessions.iter_mut().zip(prompts) {
        session.append(prompt).unwrap();
    }
    let mut items: Vec<_> = sessions.iter_mut().map(StepItem::new).collect();
    step(&mut items, None).unwrap();
    let done: Vec<_> = items.iter().map(StepItem::done).collect();
    assert_eq!(done, [5, 1, 2]);
    assert!(items.iter().all(|item| item.result().is_ok()));
    let together: Vec<_> = sessions.iter().map(|session| bits(session.logits().unwrap())).collect();
    assert_eq!(alone, together);
}

#[test]
fn of_a_step_each_session_tells_its_own_failure() {
    let model = tiny_on(Engine::builder().kv_budget(1));
    let mut first = session(&model);
    first.append(&[10; 8]).unwrap();
    let mut idle = session(&model);
    let mut items = [StepItem::new(&mut first), StepItem::new(&mut idle)];
    assert_eq!(step(&mut items, None).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(items[0].result().unwrap_err().kind(), ErrorKind::Limit);
    assert!(items[1].result().is_ok());
    assert_eq!(first.info().unwrap().computed, 0);
}

#[test]
fn sessions_of_two_models_do_not_step_together() {
    let (mut one, mut two) = (session(&tiny()), session(&tiny()));
    one.append(&[1]).unwrap();
    two.append(&[1]).unwrap();
    let mut items = [StepItem::new(&mut one), StepItem::new(&mut two)];
    assert_eq!(step(&mut items, None).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(one.info().unwrap().computed, 0);
}

#[test]
fn a_step_may_be_cut_short() {
    let mut session = session(&tiny());
    session.append(&[10; 20]).unwrap();
    let mut items = [StepItem::new(&mut session).max_elements(8).logits(Rows::None)];
    step(&mut items, None).unwrap();
    assert_eq!(items[0].done(), 8);
    assert_eq!(session.info().unwrap().computed, 8);
}

#[test]
fn hidden_states_have_their_shape() {
    let model = tiny();
    let info = model.info().unwrap();
    let width = info.n_embd as usize;
    let layers = [0, info.n_layer as i32 - 1, HIDDEN_FINAL];
    let mut session = session(&model);
    session.append(&[10, 11, 12]).unwrap();
    let all = session.step_hidden(Hidden::new(Rows::All, &layers)).unwrap();
    assert_eq!(all.len(), 3 * layers.len() * width);
    // the final one of the last element, computed again
    let last = session.step_hidden(Hidden::new(Rows::Last, &[])).unwrap();
    assert_eq!(bits(&last), bits(&all[all.len() - width..]));
    let error = session.step_hidden(Hidden::new(Rows::Last, &[999])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    session.append(&[13, 14]).unwrap();
    let masked = session.step_hidden(Hidden::new(Rows::Mask(&[true, false]), &[0])).unwrap();
    assert_eq!(masked.len(), width);
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut session = session(&tiny());
    session.append(&[10, 11, 12]).unwrap();
    session.step().unwrap();
    let before = bits(session.logits().unwrap());
    let mut fork = session.fork().unwrap();
    fork.append(&[13]).unwrap();
    fork.step().unwrap();
    assert_eq!(bits(session.logits().unwrap()), before);
    assert_eq!(session.info().unwrap().length, 3);
    session.append(&[13]).unwrap();
    session.step().unwrap();
    assert_eq!(bits(session.logits().unwrap()), bits(fork.logits().unwrap()));
}

#[test]
fn rolling_back_gives_the_same_bits_again() {
    let mut session = session(&tiny());
    session.append(&[10, 11, 12]).unwrap();
    session.step().unwrap();
    let before = bits(session.logits().unwrap());
    session.append(&[13, 14]).unwrap();
    session.step().unwrap();
    assert_eq!(session.truncate(9).unwrap_err().kind(), ErrorKind::Argument);
    session.truncate(3).unwrap();
    session.step().unwrap();
    assert_eq!(bits(session.logits().unwrap()), before);
}

#[test]
fn what_is_refused_appends_nothing() {
    let model = tiny();
    let mut session = model.session(&SessionOptions::new().n_ctx(8)).unwrap();
    assert_eq!(session.append(&[1, -1]).unwrap_err().kind(), ErrorKind::Token);
    assert_eq!(session.append(&[1; 9]).unwrap_err().kind(), ErrorKind::ContextFull);
    assert_eq!(session.append_rows(&[0.0; 3], &[[1, 2]]).unwrap_err().kind(), ErrorKind::Argument);
    let mut row = vec![0.0; model.info().unwrap().n_embd as usize];
    row[1] = f32::NAN;
    assert_eq!(session.append_rows(&row, &[[1, 2]]).unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(session.info().unwrap().length, 0);
    row[1] = 0.5;
    session.append_rows(&row, &[[1, 2]]).unwrap();
    session.append(&[7]).unwrap();
    assert_eq!(session.tokens().unwrap(), [-1, 7]);
    session.step().unwrap();
}

#[test]
fn kv_types_and_contexts_are_checked() {
    let model = tiny();
    for kv_type in [KvType::F32, KvType::Bf16, KvType::Int8, KvType::MixedF16] {
        let mut session = model.session(&SessionOptions::new().kv_type(kv_type)).unwrap();
        session.append(&[10, 11]).unwrap();
        session.step().unwrap();
    }
    let error = model.session(&SessionOptions::new().kv_type(KvType::Unknown)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    let error = model.session(&SessionOptions::new().salt([0; 65])).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("salt_len")), "{error}");
}

#[test]
fn scores_are_the_logits_log_softmax() {
    let model = tiny();
    let mut session = session(&model);
    session.append(&[10, 11]).unwrap();
    session.step().unwrap();
    let logits = session.logits().unwrap().to_vec();
    let score = session.score(&[12, 13], 2).unwrap();
    assert_eq!((score.first, score.logprobs.len(), score.top.len()), (0, 2, 2));
    let largest = logits.iter().cloned().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    let expected = f64::from(logits[12] - largest) - sum.ln();
    assert!((f64::from(score.logprobs[0]) - expected).abs() < 1e-4, "{} {expected}", score.logprobs[0]);
    assert!((score.sum - score.logprobs.iter().map(|&x| f64::from(x)).sum::<f64>()).abs() < 1e-4);
    assert!(score.top[0][0].logprob >= score.top[0][1].logprob);
    assert_eq!(session.score(&[12], 21).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(session.info().unwrap().length, 4);
}

#[test]
fn chats_are_rendered() {
    let model = tiny();
    let messages = [Message::system("Be brief."), Message::user("Hello"), Message::assistant("Hi"), Message::user("Bye")];
    let mut one = session(&model);
    one.append_chat(&messages).unwrap();
    assert!(model.template().unwrap().is_fallback());
    let json = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"},
        {"role":"assistant","content":"Hi"},{"role":"user","content":"Bye"}],"add_generation_prompt":true}"#;
    let text = model.template().unwrap().render(json, &RenderOptions::new()).unwrap();
    let mut two = session(&model);
    two.append_text_with(&text, model.tokenizer().unwrap().info().unwrap().add_bos, true).unwrap();
    assert_eq!(one.tokens().unwrap(), two.tokens().unwrap());
    let error = one.append_chat_with(&messages, &RenderOptions::new().max_output(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert_eq!(one.tokens().unwrap(), two.tokens().unwrap());
}
