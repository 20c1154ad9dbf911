//! Streams an answer: `cargo run --example generate -- MODEL.gguf "QUESTION" [TOKENS]`
use libinfer::{Event, GenerateOptions, Message, Model, SessionOptions};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, question) = match arguments.as_slice() {
        [path, question, ..] => (path, question),
        _ => return Err("usage: generate MODEL.gguf QUESTION [TOKENS]".into()),
    };
    let tokens = arguments.get(2).map_or(Ok(200), |tokens| tokens.parse())?;

    let model = Model::open_path(path)?;
    let mut session = model.session(&SessionOptions::new())?;
    session.append_chat(&[Message::user(question)])?;

    let mut out = std::io::stdout().lock();
    let mut answer = session.generate(&GenerateOptions::new().max_tokens(tokens))?;
    while let Some(event) = answer.next_event()? {
        out.write_all(event.text().as_bytes())?;
        out.flush()?;
        if let Event::Done { reason, .. } = event {
            writeln!(out, "\n[{reason:?}]")?;
        }
    }
    Ok(())
}
