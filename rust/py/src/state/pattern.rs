//! Patterns of functions.

use inviso_core::host::plan::Mfa;

/// A pattern of functions; `None` is the wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The module; a `.**` at the end adds all modules below it.
    pub module: Option<String>,
    /// The qualified name.
    pub function: Option<String>,
    /// The arity.
    pub arity: Option<i64>,
}

impl Pattern {
    /// Whether the pattern matches a name. Only wildcards match `<module>` and class bodies.
    #[must_use]
    pub fn takes(&self, name: &Mfa) -> bool {
        self.takes_module(&name.module)
            && self.function.as_deref().is_none_or(|f| f == &*name.function)
            && self.arity.is_none_or(|a| a == i64::from(name.arity))
            && (self.module.is_some() || !is_ours(&name.module))
    }

    /// Whether the pattern may match functions of a module.
    #[must_use]
    pub fn takes_module(&self, name: &str) -> bool {
        self.module.as_deref().is_none_or(|wanted| match wanted.strip_suffix(".**") {
            Some(package) => name.strip_prefix(package).is_some_and(|below| below.is_empty() || below.starts_with('.')),
            None => wanted == name,
        })
    }
}

/// Whether a module is the tracer's own. Only a pattern that names the module matches its functions.
pub fn is_ours(module: &str) -> bool {
    module == "inviso" || module.starts_with("inviso.")
}
