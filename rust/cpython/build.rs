//! Lets the code see which Python it is built for.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
