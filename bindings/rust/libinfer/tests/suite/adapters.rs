//! Adapters and embeddings.
use crate::{data, session, tiny};
use libinfer::*;

fn llama() -> Model {
    Model::open_path(data("fixtures/llama.gguf")).unwrap()
}

fn logits(session: &mut Session) -> Vec<f32> {
    session.append(&[1, 2, 3]).unwrap();
    session.step().unwrap();
    session.logits().unwrap().to_vec()
}

#[test]
fn a_lora_acts_while_it_is_attached() {
    let model = llama();
    let adapter = model.open_adapter(data("adapters/lora-r4.gguf"), &OpenOptions::new()).unwrap();
    let info = adapter.info().unwrap();
    assert_eq!((info.kind, info.rank), (AdapterKind::Lora, 4));
    assert_eq!(adapter.targets().count() as u64, info.targets);
    assert!(adapter.targets().all(|name| name.ends_with(".weight") || name.contains("blk.")));
    assert!(adapter.invocation().is_empty());
    assert_eq!(model.find_adapter(&info.hash).unwrap().info().unwrap(), info);
    let plain = logits(&mut session(&model));
    let mut adapted = session(&model);
    adapted.set_adapters(&[AdapterUse::new(&adapter)]).unwrap();
    assert_eq!(adapted.adapters().unwrap().len(), 1);
    assert_ne!(logits(&mut adapted), plain);
    let mut nothing = session(&model);
    nothing.set_adapters(&[AdapterUse::new(&adapter).scale(0.0)]).unwrap();
    drop(adapter);
    assert_eq!(logits(&mut nothing), plain);
    let again = adapted.adapters().unwrap().remove(0).0;
    assert_eq!(again.info().unwrap().hash, info.hash);
    adapted.set_adapters(&[]).unwrap();
    assert!(adapted.adapters().unwrap().is_empty());
    drop((adapted, again));
    assert_eq!(model.find_adapter(&info.hash).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_adapter_s_bytes_live_as_long_as_a_session_uses_it() {
    let model = llama();
    let bytes = std::fs::read(data("adapters/lora-r4.gguf")).unwrap();
    let adapter = model.open_adapter(Source::bytes(bytes), &OpenOptions::new()).unwrap();
    let steering = std::fs::read(data("adapters/steering.safetensors")).unwrap();
    model.open_adapter(Source::bytes(steering), &OpenOptions::new()).unwrap(); // of safetensors it is asked what lies beside them
    let mut one = session(&model);
    one.set_adapters(&[AdapterUse::new(&adapter)]).unwrap();
    drop(adapter);
    let from_path = model.open_adapter(data("adapters/lora-r4.gguf"), &OpenOptions::new()).unwrap();
    let mut two = session(&model);
    two.set_adapters(&[AdapterUse::new(&from_path)]).unwrap();
    assert_eq!(logits(&mut one), logits(&mut two));
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = llama();
    assert!(tiny().open_adapter(data("adapters/lora-r4.gguf"), &OpenOptions::new()).is_err());
    let adapter = model.open_adapter(data("adapters/lora-r4.gguf"), &OpenOptions::new()).unwrap();
    let mut session = session(&model);
    let error = session.set_adapters(&[AdapterUse::new(&adapter).scale(f32::NAN)]).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Argument, Some("scale")), "{error}");
    let other = llama();
    let mut elsewhere = other.session(&SessionOptions::new()).unwrap();
    assert_eq!(elsewhere.set_adapters(&[AdapterUse::new(&adapter)]).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(session.append_adapter(&adapter).unwrap_err().kind(), ErrorKind::Argument);
    let error = model.open_adapter(data("english.txt"), &OpenOptions::new()).unwrap_err();
    assert!(error.file().is_some(), "{error:?}");
}

#[test]
fn steering_and_soft_prompts() {
    let model = llama();
    let open = |name| model.open_adapter(data(name), &OpenOptions::new()).unwrap();
    let steering = open("adapters/steering.gguf");
    assert_eq!(steering.info().unwrap().kind, AdapterKind::Steering);
    let run = |uses: &[AdapterUse<'_>]| {
        let mut session = session(&model);
        session.set_adapters(uses).unwrap();
        logits(&mut session)
    };
    let added = run(&[AdapterUse::new(&steering)]);
    assert_ne!(added, run(&[AdapterUse::new(&steering).project()]));
    assert_ne!(added, run(&[AdapterUse::new(&steering).layers(1, 1)]));
    for (name, kind) in [("adapters/soft-prompt", AdapterKind::SoftPrompt), ("adapters/prefix", AdapterKind::Prefix)] {
        let adapter = open(name);
        let info = adapter.info().unwrap();
        assert_eq!(info.kind, kind);
        let mut session = session(&model);
        session.append_adapter(&adapter).unwrap();
        assert_eq!(session.info().unwrap().length, u64::from(info.rows));
        session.append(&[1]).unwrap();
        session.step().unwrap();
    }
}

#[test]
fn encoders_make_embeddings() {
    let model = Model::open_path(data("fixtures/bert.gguf")).unwrap();
    let info = model.info().unwrap();
    assert!(info.encoder);
    assert_eq!(model.session(&SessionOptions::new()).unwrap_err().kind(), ErrorKind::Unsupported);
    let texts = ["the cat sat".into(), "on a mat".into(), EmbedInput::Ids(&[2, 5, 3])];
    let together = model.embed(&texts, &EmbedOptions::new()).unwrap();
    for (input, embedding) in texts.iter().zip(&together) {
        assert_eq!(embedding.vectors.len(), info.embedding_width as usize);
        let length: f32 = embedding.vectors.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
        let alone = model.embed(&[*input], &EmbedOptions::new()).unwrap();
        assert_eq!(&alone[0], embedding);
    }
    let each = model.embed(&texts, &EmbedOptions::new().pooling(Pooling::None)).unwrap();
    for embedding in each {
        assert_eq!(embedding.rows().count() as u64, embedding.tokens);
    }
    let short = model.embed(&texts[..1], &EmbedOptions::new().dimensions(8)).unwrap();
    assert_eq!(short[0].vectors.len(), 8);
}

#[test]
fn one_bad_text_leaves_the_others() {
    let model = Model::open_path(data("fixtures/bert.gguf")).unwrap();
    let inputs = [EmbedInput::Text("fine"), EmbedInput::Ids(&[1 << 24]), EmbedInput::Ids(&[]), EmbedInput::Text("fine")];
    let results = model.embed_each(&inputs, &EmbedOptions::new()).unwrap();
    assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::Token);
    assert_eq!(results[2].as_ref().unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(results[0].as_ref().unwrap(), results[3].as_ref().unwrap());
    assert_eq!(model.embed(&inputs, &EmbedOptions::new()).unwrap_err().kind(), ErrorKind::Token);
    let results = model.embed_each(&inputs, &EmbedOptions::new().pooling(Pooling::None)).unwrap();
    assert!(results[0].is_ok() && results[1].is_err());
    let long = "cat ".repeat(10_000);
    let error = model.embed(&[long.as_str().into()], &EmbedOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContextFull, "{error}");
    let cut = model.embed(&[long.as_str().into()], &EmbedOptions::new().truncate()).unwrap();
    assert!(cut[0].truncated);
    let error = model.embed(&inputs, &EmbedOptions::new().pooling(Pooling::Rank)).unwrap_err();
    assert_eq!(error.name(), Some("pooling"), "{error}");
    let flag = CancelFlag::new().unwrap();
    flag.set();
    let error = model.embed(&inputs[..1], &EmbedOptions::new().cancel(&flag)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
