//! Programs that must not compile, and the error that says why. Each is there a second time without the offending line, and must compile then: so the
//! error is about that line.
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest compiled libinfer beside this test.
fn rlib(dir: &Path) -> PathBuf {
    let built = |path: &PathBuf| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        name.starts_with("liblibinfer-") && name.ends_with(".rlib")
    };
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(built).max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("no liblibinfer-*.rlib")
}

/// None: it compiles. Else the compiler's messages.
fn compile(text: &str) -> Option<String> {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let source = deps.join(format!("compile-fail-{}-{:?}.rs", std::process::id(), std::thread::current().id()).replace(['(', ')'], ""));
    std::fs::write(&source, format!("#![allow(unused)]\nuse libinfer::*;\n{text}\nfn main() {{}}\n")).unwrap();
    let rustc = option_env!("RUSTC").unwrap_or("rustc");
    let output = Command::new(rustc)
        .args(["--edition", "2021", "--emit=metadata", "--crate-name", "compile_fail", "-o"])
        .arg(source.with_extension("rmeta"))
        .arg("--extern")
        .arg(format!("libinfer={}", rlib(deps).display()))
        .arg("-L")
        .arg(deps)
        .arg(&source)
        .output()
        .unwrap();
    let _ = std::fs::remove_file(source.with_extension("rmeta"));
    let _ = std::fs::remove_file(&source);
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The marked line is left out for the program that must compile.
fn refused(code: &str, text: &str) {
    let good: String = text.lines().filter(|line| !line.contains("// !")).map(|line| line.to_owned() + "\n").collect();
    assert_ne!(good.trim_end(), text.trim_end(), "no line is marked");
    assert_eq!(compile(&good), None, "without the marked line");
    let messages = compile(text).expect("it compiles");
    assert!(messages.contains(&format!("error[{code}]")), "{messages}");
}

#[test]
fn a_session_is_not_shared() {
    refused("E0277", "fn shared<T: Sync>() {}\nfn f() {\n    shared::<Model>();\n    shared::<Session>(); // !\n}");
}

#[test]
fn logits_do_not_outlive_a_step() {
    refused(
        "E0502",
        "fn f(session: &mut Session) -> Result<f32> {\n    let logits = session.logits()?;\n    session.step()?; // !\n    Ok(logits[0])\n}",
    );
}

#[test]
fn logits_do_not_outlive_the_session() {
    refused("E0505", "fn f(session: Session) -> Result<f32> {\n    let logits = session.logits()?;\n    drop(session); // !\n    Ok(logits[0])\n}");
}

#[test]
fn an_answer_borrows_its_session() {
    refused(
        "E0499",
        "fn f(session: &mut Session) -> Result<()> {\n    let mut answer = session.generate(&GenerateOptions::new())?;\n    session.append(&[1])?; // !\n    answer.next_event()?;\n    Ok(())\n}",
    );
}

#[test]
fn borrowed_text_does_not_outlive_the_next_event() {
    refused(
        "E0499",
        "fn f(answer: &mut Generation<'_>) -> Result<()> {\n    let event = answer.next_event()?;\n    answer.next_event()?; // !\n    println!(\"{:?}\", event);\n    Ok(())\n}",
    );
}

#[test]
fn one_session_is_not_stepped_twice_at_once() {
    refused(
        "E0499",
        "fn f(session: &mut Session) -> Result<()> {\n    let mut items = vec![StepItem::new(session)];\n    items.push(StepItem::new(session)); // !\n    step(&mut items, None)\n}",
    );
}

#[test]
fn a_tensor_does_not_outlive_its_file() {
    refused("E0505", "fn f(file: File) -> Result<usize> {\n    let tensor = file.tensor(0)?;\n    drop(file); // !\n    Ok(tensor.data().len())\n}");
}

#[test]
fn a_callback_borrows_nothing_that_ends() {
    refused(
        "E0597",
        "fn f() -> Sampling {\n    let banned = 7usize;\n    let borrowed = &banned;\n    let sampling = Sampling::greedy();\n    let sampling = sampling.callback(move |logits: &mut [f32], _: &[i32]| { logits[*borrowed] = 0.0; Ok(()) }); // !\n    sampling\n}",
    );
}
