//! Lets the code see which Python it is built for, and chooses how it reads frames.

use pyo3_build_config::PythonImplementation;

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo:rustc-check-cfg=cfg(inviso_public_api)");
    println!("cargo:rerun-if-env-changed=INVISO_PUBLIC_API");
    let python = pyo3_build_config::get();
    let (major, minor) = (python.version().major, python.version().minor);
    assert!(
        python.implementation() == PythonImplementation::CPython,
        "inviso needs CPython 3.11 or later; this is {:?} {major}.{minor}: build it with CPython",
        python.implementation()
    );
    let target = |name: &str| std::env::var(name).unwrap_or_default();
    let known = ["x86_64", "aarch64"].contains(&target("CARGO_CFG_TARGET_ARCH").as_str())
        && target("CARGO_CFG_TARGET_OS") == "linux"
        && (major, minor) < (3, 16);
    let wanted = std::env::var("INVISO_PUBLIC_API").is_ok_and(|is| !is.is_empty() && is != "0");
    // before 3.12 a frame that begins has no frame object
    if (major, minor) >= (3, 12) && (wanted || !known) {
        println!("cargo:rustc-cfg=inviso_public_api");
    }
}
