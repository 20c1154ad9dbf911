//! Finds libinfer, in this order:
//!
//! 1. `LIBINFER_LIB_DIR`: the folder that holds it.
//! 2. pkg-config, if its libinfer is new enough and of the same major version (`LIBINFER_NO_PKG_CONFIG=1` passes this over).
//! 3. With the feature `vendored`: builds the checkout that this crate lies in, with Meson and Ninja, and links it statically.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

/// What the bindings were made from.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["LIBINFER_LIB_DIR", "LIBINFER_NO_PKG_CONFIG", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let rustc = rustc_minor();
    if rustc >= 80 {
        println!("cargo:rustc-check-cfg=cfg(infer_offset_of)");
    }
    if rustc >= 77 {
        println!("cargo:rustc-cfg=infer_offset_of");
    }
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation links nothing
    }
    if let Some(dir) = env::var_os("LIBINFER_LIB_DIR") {
        return in_folder(Path::new(&dir));
    }
    let found = if flag("LIBINFER_NO_PKG_CONFIG") { Err("passed over".into()) } else { by_pkg_config() };
    if let Err(why) = found {
        if !feature("vendored") {
            fail(&format!(
                "pkg-config: {why}. Install libinfer {VERSION} or newer of this major version, set LIBINFER_LIB_DIR, \
                 or turn the feature `vendored` on"
            ));
        }
        vendored();
    }
}

fn fail(text: &str) -> ! {
    println!("cargo:warning={text}");
    eprintln!("{text}");
    exit(1)
}

fn feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some()
}

fn flag(name: &str) -> bool {
    env::var(name).map_or(false, |value| !value.is_empty() && value != "0")
}

/// Output of a program; an error says which program failed, and how.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(format!("{name} ended with {}: {} {}", output.status, out.trim(), err.trim()))
}

/// 77 of "rustc 1.77.0 (...)"; 0 when it cannot be told.
fn rustc_minor() -> u32 {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = run(Command::new(rustc).arg("--version")).unwrap_or_default();
    text.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

fn major() -> &'static str {
    VERSION.split('.').next().unwrap_or(VERSION)
}

/// The ABI's number stands in the file's name, so that is what can be checked in a folder.
fn in_folder(dir: &Path) {
    let windows = env::var("CARGO_CFG_TARGET_OS").map_or(false, |os| os == "windows");
    let apple = env::var("CARGO_CFG_TARGET_VENDOR").map_or(false, |vendor| vendor == "apple");
    println!("cargo:rerun-if-changed={}", dir.display());
    println!("cargo:rustc-link-search=native={}", dir.display());
    if feature("static") {
        if !dir.join("libinfer.a").exists() {
            fail(&format!("LIBINFER_LIB_DIR: {} has no libinfer.a", dir.display()));
        }
        println!("cargo:rustc-link-lib=static=infer");
        return private_libraries(&dir.join("pkgconfig"));
    }
    let name = format!("libinfer.so.{}", major());
    if !windows && !apple && !dir.join(&name).exists() {
        fail(&format!("LIBINFER_LIB_DIR: {} has no {name}", dir.display()));
    }
    println!("cargo:rustc-link-lib=dylib=infer");
}

fn pkg_config() -> Command {
    Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()))
}

fn by_pkg_config() -> Result<(), String> {
    if env::var("HOST") != env::var("TARGET") && env::var_os("PKG_CONFIG").is_none() {
        return Err("a cross build needs PKG_CONFIG, a pkg-config for the target".into());
    }
    let next: u32 = major().parse::<u32>().unwrap_or(0) + 1;
    run(pkg_config().args([format!("--atleast-version={VERSION}"), "libinfer".into()]))
        .map_err(|why| format!("no libinfer {VERSION} or newer ({})", why.trim()))?;
    let version = run(pkg_config().args(["--modversion", "libinfer"]))?;
    if version.trim().split('.').next() != Some(major()) {
        return Err(format!("libinfer {} is of another major version: {VERSION} to before {next}.0.0 is needed", version.trim()));
    }
    let mut command = pkg_config();
    if feature("static") {
        command.arg("--static");
    }
    link(&run(command.args(["--libs", "libinfer"]))?, feature("static"));
    Ok(())
}

/// Hands pkg-config's -L and -l on to cargo; `fixed`: libinfer itself from its archive.
fn link(flags: &str, fixed: bool) {
    for flag in flags.split_whitespace() {
        if let Some(dir) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={dir}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            let kind = if name == "infer" && fixed { "static=" } else { "dylib=" };
            println!("cargo:rustc-link-lib={kind}{name}");
        }
    }
}

/// What an archive needs beside itself, where its .pc file lies in this folder; else the C library's mathematics and threads alone.
fn private_libraries(pc: &Path) {
    let told = run(pkg_config().env("PKG_CONFIG_PATH", pc).args(["--static", "--libs", "libinfer"]));
    for flag in told.unwrap_or_else(|_| "-lm -lpthread".into()).split_whitespace() {
        match flag.strip_prefix("-l") {
            Some("infer") | None => {}
            Some(name) => println!("cargo:rustc-link-lib=dylib={name}"),
        }
    }
}

/// The checkout: the nearest folder above this crate that is one.
fn checkout() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let found = here.ancestors().find(|dir| dir.join("include/infer/infer.h").exists() && dir.join("meson.build").exists());
    match found {
        Some(dir) => dir.to_path_buf(),
        None => fail("the feature `vendored` needs a checkout of libinfer around this crate"),
    }
}

fn vendored() {
    let source = checkout();
    for name in ["lib", "include", "meson.build", "meson_options.txt"] {
        println!("cargo:rerun-if-changed={}", source.join(name).display());
    }
    if env::var("HOST") != env::var("TARGET") {
        fail("a cross build cannot build libinfer by itself: build it with Meson and set LIBINFER_LIB_DIR");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (build, prefix) = (out.join("build"), out.join("prefix"));
    let mut setup = Command::new("meson");
    setup.arg("setup").arg(&build).arg(&source).arg(format!("--prefix={}", prefix.display()));
    setup.args(["--libdir=lib", "--buildtype=release", "-Ddefault_library=both", "-Dtools=false", "-Dexamples=false"]);
    setup.args(["-Dtests=false", "-Ddocs=false"]);
    let with_pkg_config = run(pkg_config().arg("--version")).is_ok();
    if !with_pkg_config {
        setup.args(["-Dzstd=disabled", "-Dpcre2=disabled"]); // nothing could tell how to link them
    }
    if build.join("meson-info").exists() {
        setup.arg("--reconfigure");
    }
    let mut install = Command::new("meson");
    install.args(["install", "--quiet", "--no-rebuild", "-C"]).arg(&build);
    let mut ninja = Command::new("ninja");
    ninja.arg("-C").arg(&build);
    if let Ok(jobs) = env::var("NUM_JOBS") {
        ninja.arg(format!("-j{jobs}"));
    }
    for command in [&mut setup, &mut ninja, &mut install] {
        if let Err(why) = run(command) {
            fail(&format!("cannot build libinfer from {}: {why}", source.display()));
        }
    }
    let lib = prefix.join("lib");
    if !lib.join("libinfer.a").exists() {
        let _ = fs::remove_dir_all(&build); // so that the next run begins anew
        fail(&format!("{} has no libinfer.a", lib.display()));
    }
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=static=infer");
    private_libraries(&lib.join("pkgconfig"));
}
