#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| inviso_fuzz::log(bytes));
