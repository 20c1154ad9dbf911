use crate::{data, session, tiny, tiny_path};
use libinfer::*;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

fn logits(model: &Model) -> Vec<f32> {
    let mut session = session(model);
    session.append(&[10, 11, 12]).unwrap();
    session.step().unwrap();
    session.logits().unwrap().to_vec()
}

/// Tells when it is dropped.
struct Bytes(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_model_opens_from_everywhere() {
    let expected = logits(&Model::open_path(tiny_path()).unwrap());
    let options = OpenOptions::new();
    assert_eq!(logits(&Model::open(None, tiny_path(), &options.clone().map(Map::Read)).unwrap()), expected);
    let bytes = std::fs::read(tiny_path()).unwrap();
    assert_eq!(logits(&Model::open(None, Source::bytes(bytes), &options).unwrap()), expected);
    let file = std::fs::File::open(tiny_path()).unwrap();
    let model = Model::open(None, Source::file(&file), &options).unwrap();
    drop(file);
    assert_eq!(logits(&model), expected);
}

#[test]
fn bytes_live_as_long_as_what_was_opened_from_them() {
    let gone = Arc::new(AtomicBool::new(false));
    let bytes = Bytes(std::fs::read(tiny_path()).unwrap(), gone.clone());
    let model = Model::open(None, Source::bytes(bytes), &OpenOptions::new()).unwrap();
    let (tokenizer, mut session) = (model.tokenizer().unwrap(), session(&model));
    drop(model);
    session.append(&tokenizer.encode("Once").unwrap()).unwrap();
    session.step().unwrap();
    let checkpoint = session.checkpoint().unwrap();
    drop(session);
    drop(tokenizer);
    assert!(!gone.load(Ordering::SeqCst));
    drop(checkpoint);
    assert!(gone.load(Ordering::SeqCst), "the last handle gives them back");
    let gone = Arc::new(AtomicBool::new(false));
    let bytes = Bytes(b"GGUF, but no more".to_vec(), gone.clone());
    assert!(Model::open(None, Source::bytes(bytes), &OpenOptions::new()).is_err());
    assert!(gone.load(Ordering::SeqCst), "and so does a failure");
}

struct InMemory(Vec<u8>);

impl Reader for InMemory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        buffer.copy_from_slice(self.0.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn a_model_opens_by_a_reader() {
    let mut asked = Vec::new();
    let reader = Source::reader("some.gguf", |name| {
        asked.push(name.to_owned());
        Ok(Box::new(InMemory(std::fs::read(tiny_path())?)) as Box<dyn Reader>)
    });
    let model = Model::open(None, reader, &OpenOptions::new()).unwrap();
    assert_eq!(asked, ["some.gguf"]);
    assert_eq!(logits(&model), logits(&tiny()));
}

#[test]
fn a_reader_s_error_is_told() {
    struct Broken;
    impl Reader for Broken {
        fn length(&self) -> u64 {
            1 << 20
        }
        fn read_at(&mut self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(io::Error::new(io::ErrorKind::Other, "the tape is torn"))
        }
    }
    let reader = Source::reader("tape", |_| Ok(Box::new(Broken) as Box<dyn Reader>));
    let error = Model::open(None, reader, &OpenOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.text()), (ErrorKind::Io, "the tape is torn"), "{error}");
    assert_eq!((error.file(), error.offset()), (Some("tape"), Some(0)));
    let folder = Source::reader("tape", |name| match name {
        "tape" => Err(io::ErrorKind::NotFound.into()), // it is no file
        _ => Ok(Box::new(Broken)),
    });
    let error = Model::open(None, folder, &OpenOptions::new()).unwrap_err();
    assert_eq!((error.text(), error.file(), error.offset()), ("the tape is torn", Some("tape/config.json"), Some(0)), "{error}");
    let mut asked = 0;
    let locked = Source::reader("tape", |_| {
        asked += 1;
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "locked"))
    });
    let error = Model::open(None, locked, &OpenOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.text(), error.file()), (ErrorKind::Io, "locked", Some("tape")), "{error}");
    assert_eq!(asked, 1, "a failure ends the call");
    let missing = Source::reader("tape", |_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(Model::open(None, missing, &OpenOptions::new()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn errors_name_the_place() {
    let error = Model::open_path("/nowhere/at-all.gguf").unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::NotFound, Some("/nowhere/at-all.gguf")), "{error}");
    let mut bytes = std::fs::read(tiny_path()).unwrap();
    bytes.truncate(bytes.len() - 1000);
    let error = Model::open(None, Source::bytes(bytes), &OpenOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
    let error = Model::open(None, Source::bytes(b"GGUF\x03\0\0\0".to_vec()), &OpenOptions::new()).unwrap_err();
    assert!(error.offset().is_some(), "{error:?}");
    assert!(error.to_string().contains("at byte"), "{error}");
    let error = Model::open(None, Source::bytes(Vec::new()), &OpenOptions::new()).unwrap_err();
    assert!(error.code() < 0, "{error}");
    let error = Template::parse(None, "{{ 1 + }}").unwrap_err();
    assert_eq!((error.kind(), error.offset().is_some()), (ErrorKind::Syntax, true), "{error}");
}

#[test]
fn opening_can_be_cancelled() {
    let flag = CancelFlag::new().unwrap();
    flag.set();
    let error = Model::open(None, tiny_path(), &OpenOptions::new().cancel(&flag)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_file_is_tensors_and_metadata() {
    let file = File::open(None, tiny_path(), &OpenOptions::new()).unwrap();
    assert_eq!(file.tensors().count() as u64, file.tensor_count());
    assert_eq!(file.metadata().count() as u64, file.meta_count());
    assert_eq!(file.find_meta("general.architecture").unwrap().as_str(), Some("llama"));
    assert_eq!(file.find_meta("no.such.key").unwrap_err().kind(), ErrorKind::NotFound);
    let tokens = file.find_meta("tokenizer.ggml.tokens").unwrap();
    let array = tokens.as_array().unwrap();
    assert_eq!(array.iter().count() as u64, array.len());
    assert!(array.get(0).unwrap().as_str().is_some());
    assert_eq!(array.get(array.len()).unwrap_err().kind(), ErrorKind::Argument);
    let tensor = file.find_tensor("token_embd.weight").unwrap();
    assert_eq!(tensor.shape()[0], file.find_meta("llama.embedding_length").unwrap().as_u64().unwrap());
    let whole = tensor.to_f32().unwrap();
    let mut row = vec![0.0; tensor.shape()[0] as usize];
    tensor.read_f32(tensor.shape()[0], &mut row).unwrap();
    assert_eq!(row, whole[row.len()..2 * row.len()]);
    let error = tensor.read_f32(tensor.elements(), &mut row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(!tensor.data().is_empty());
    assert_eq!(file.find_tensor("nothing").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.tensor(file.tensor_count()).unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn other_formats_are_files_too() {
    let file = File::open(None, data("types.safetensors"), &OpenOptions::new()).unwrap();
    let types: Vec<_> = file.tensors().map(|tensor| tensor.tensor_type()).collect();
    assert!(types.contains(&TensorType::Bf16) && !types.contains(&TensorType::Unknown), "{types:?}");
    for tensor in file.tensors() {
        assert_eq!(tensor.to_f32().unwrap().len() as u64, tensor.elements(), "{tensor:?}");
    }
    assert_eq!(TensorType::Q4_K.name(), "Q4_K");
}

#[test]
fn texts_become_ids_and_texts_again() {
    let tokenizer = Tokenizer::open(None, tiny_path(), &OpenOptions::new()).unwrap();
    let text = "Once upon a time, a cat. Größe \u{1f431}!";
    let ids = tokenizer.encode(text).unwrap();
    assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    assert_eq!(tokenizer.encode("").unwrap(), []);
    assert_eq!(tokenizer.decode(&[]).unwrap(), "");
    let mut streaming = tokenizer.detokenizer(false);
    let mut streamed: String = ids.iter().map(|&id| streaming.push(id).unwrap()).collect();
    streamed += &streaming.finish().unwrap();
    assert_eq!(streamed, text);
    let long = text.repeat(1000);
    assert_eq!(tokenizer.decode(&tokenizer.encode(&long).unwrap()).unwrap(), long);
    assert_eq!(tokenizer.decode(&[1 << 24]).unwrap_err().kind(), ErrorKind::Token);
    let info = tokenizer.info().unwrap();
    assert_eq!(tokenizer.token(info.vocab_size as i32).unwrap_err().kind(), ErrorKind::Token);
    let end = info.eot.or(info.eos).unwrap();
    let token = tokenizer.token(end).unwrap();
    assert!(token.ends_turn && token.kind == TokenKind::Control);
    let spelling = std::str::from_utf8(token.piece).unwrap();
    assert_eq!(tokenizer.encode_with(spelling.as_bytes(), false, true).unwrap(), [end]);
    assert_ne!(tokenizer.encode(spelling).unwrap(), [end]);
    assert_eq!(tokenizer.decode_bytes(&[end], true).unwrap(), token.piece);
    assert_eq!(tokenizer.decode_bytes(&[end], false).unwrap(), b"");
}

#[test]
fn templates_render() {
    let template = Template::parse(None, "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}").unwrap();
    assert!(!template.is_fallback());
    let json = r#"{"messages":[{"role":"user","content":"Grüße"}]}"#;
    assert_eq!(template.render(json, &RenderOptions::new()).unwrap(), "[user] Grüße\n");
    assert_eq!(template.render("{", &RenderOptions::new()).unwrap_err().kind(), ErrorKind::Syntax);
    let raising = Template::parse(None, "{{ raise_exception('not so') }}").unwrap();
    let error = raising.render("{}", &RenderOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Template);
    assert!(error.text().contains("not so"), "{error}");
    let endless = Template::parse(None, "{% for i in range(100000) %}{{ i }}{% endfor %}").unwrap();
    let error = endless.render("{}", &RenderOptions::new().max_steps(1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn a_model_tells_what_it_is() {
    let model = tiny();
    let info = model.info().unwrap();
    assert_eq!((info.architecture.as_str(), info.encoder), ("llama", false));
    assert!(info.n_params > 0 && info.weight_bytes > 0 && info.tokenizer_problem.is_empty());
    let memory = model.memory().unwrap();
    assert!(memory.resident_bytes <= memory.weight_bytes);
    assert_eq!(model.file().unwrap().tensor_count(), File::open(None, tiny_path(), &OpenOptions::new()).unwrap().tensor_count());
    let quick = model.fingerprint(Fingerprint::Quick, None).unwrap();
    assert_eq!(quick, tiny().fingerprint(Fingerprint::Quick, None).unwrap());
    assert_ne!(quick, model.fingerprint(Fingerprint::Full, None).unwrap());
    assert_eq!(model.engine().unwrap().info().unwrap().threads, 1);
    let error = Model::open_path(data("types.safetensors")).unwrap_err();
    assert!(error.file().is_some(), "{error:?}");
}
