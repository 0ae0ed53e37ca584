//! Small scripts as policies of pools: Rhai, with limits on everything, whole numbers only, and nothing to see but what is
//! asked about. The same script gives the same score on every machine.
//!
//! A script's last value is the score. It sees `request` and `resource`; see `docs/placement.md`.

mod sight;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rhai::packages::{
    ArithmeticPackage, BasicIteratorPackage, BasicMathPackage, BasicStringPackage, LogicPackage, Package,
};
use rhai::{AST, Array, Dynamic, Engine, EvalAltResult, Map, Position, Scope};
use tenure_core::{Budget, CALL_OPERATIONS_MAX, Fault, Offer, Policies, Policy, Request, Sight, Which};

/// Calls of functions within each other.
const CALL_LEVELS_MAX: usize = 16;
/// Nesting of expressions, outside of functions and within.
const EXPRESSION_DEPTH_MAX: usize = 32;
const FUNCTIONS_MAX: usize = 16;
const VARIABLES_MAX: usize = 64;
/// No single operation works on more than this, so that counting operations bounds the time.
const ARRAY_MAX: usize = 256;
const MAP_MAX: usize = 256;
/// Twice as long as anything that a script is shown.
const STRING_BYTES_MAX: usize = 2_048;
/// What looks at each letter counts as an operation for so many: letters outside of ASCII take long to be made small.
const BYTES_PER_OPERATION: usize = 8;
/// So does what is done with a text as a whole: it is compared, searched, copied, cut.
const BYTES_READ_PER_OPERATION: usize = 32;

thread_local! {
    /// How many operations the script that runs may take, and has taken.
    static ALLOWED: Cell<u64> = const { Cell::new(0) };
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// How many of them the language did not count.
    static CHARGED: Cell<u64> = const { Cell::new(0) };
}

/// What takes as long as something is long is not one operation.
fn charge(operations: usize) {
    CHARGED.set(CHARGED.get().saturating_add(operations as u64));
}

/// What a variable is read for is not known, but it may well be to copy it, entry by entry.
fn charge_for_reading(value: &Dynamic) {
    if let Ok(text) = value.as_immutable_string_ref() {
        charge(text.len() / BYTES_READ_PER_OPERATION);
    } else if let Ok(list) = value.as_array_ref() {
        charge(entries(&list));
    } else if let Ok(map) = value.as_map_ref() {
        charge(map.len() + map.values().map(entries_of).sum::<usize>());
    }
}

/// How many there are in it and in what is in it: the language sees to it that they are not many, and not deep.
fn entries(list: &Array) -> usize {
    list.len() + list.iter().map(entries_of).sum::<usize>()
}

fn entries_of(value: &Dynamic) -> usize {
    if let Ok(list) = value.as_array_ref() {
        return entries(&list);
    }
    value.as_map_ref().map_or(0, |map| map.len() + map.values().map(entries_of).sum::<usize>())
}

/// Compiles scripts.
#[derive(Debug)]
pub struct RhaiPolicies {
    engine: Arc<Engine>,
}

impl RhaiPolicies {
    pub fn new() -> Self {
        let mut engine = Engine::new_raw();
        // Not the package of the language's core, which can sleep.
        ArithmeticPackage::new().register_into_engine(&mut engine);
        BasicStringPackage::new().register_into_engine(&mut engine);
        BasicIteratorPackage::new().register_into_engine(&mut engine);
        LogicPackage::new().register_into_engine(&mut engine);
        BasicMathPackage::new().register_into_engine(&mut engine);
        // Of what there is for texts, lists and maps only what takes no longer than they are long: not what replaces or pads.
        engine
            .register_fn("number", number)
            .register_fn("parse_int", |text: &str| parse_int(text, 10))
            .register_fn("parse_int", parse_int)
            .register_fn("to_debug", |text: &str| {
                charge(text.len() / BYTES_PER_OPERATION);
                format!("{text:?}")
            })
            .register_fn("len", |text: &str| whole(text.chars().count()))
            .register_fn("len", |list: &mut Array| whole(list.len()))
            .register_fn("contains", |text: &str, part: &str| text.contains(part))
            .register_fn("contains", |list: &mut Array, item: Dynamic| list.iter().any(|it| same(it, &item)))
            .register_fn("starts_with", |text: &str, part: &str| text.starts_with(part))
            .register_fn("ends_with", |text: &str, part: &str| text.ends_with(part))
            .register_fn("to_lower", |text: &str| {
                charge(text.len() / BYTES_PER_OPERATION);
                text.to_lowercase()
            })
            .register_fn("len", |map: &mut Map| whole(map.len()))
            .register_fn("contains", |map: &mut Map, name: &str| map.contains_key(name))
            .register_fn("keys", |map: &mut Map| {
                charge(map.len());
                map.keys().map(|name| Dynamic::from(name.to_string())).collect::<Array>()
            });
        // Of what becomes a text without being one only numbers do so at once.
        for name in ["to_string", "to_debug"] {
            engine
                .register_fn(name, |_: &mut Array| no_text("a list"))
                .register_fn(name, |_: &mut Map| no_text("a map"));
        }
        // What is not there cannot be misused: no text becomes code, and nothing is printed.
        for symbol in ["eval", "print", "debug", "import", "export"] {
            engine.disable_symbol(symbol);
        }
        // Nor is anything read that is no variable and yet as long as one.
        for symbol in ["this", "curry"] {
            engine.disable_symbol(symbol);
        }
        engine
            .set_max_operations(CALL_OPERATIONS_MAX)
            .set_max_call_levels(CALL_LEVELS_MAX)
            .set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX)
            .set_max_functions(FUNCTIONS_MAX)
            .set_max_variables(VARIABLES_MAX)
            .set_max_array_size(ARRAY_MAX)
            .set_max_map_size(MAP_MAX)
            .set_max_string_size(STRING_BYTES_MAX)
            // A name that is nowhere is a mistake, and one to be told of when the script is set.
            .set_strict_variables(true);
        engine.on_progress(|counted| {
            let taken = counted + CHARGED.get();
            TAKEN.set(taken);
            (taken > ALLOWED.get().min(CALL_OPERATIONS_MAX)).then_some(Dynamic::UNIT)
        });
        #[allow(deprecated, reason = "it is not, but may change: the tests would show it")]
        engine.on_var(|name, _, context| {
            if let Some(value) = context.scope().get(name) {
                charge_for_reading(value);
            }
            Ok(None)
        });
        Self { engine: Arc::new(engine) }
    }
}

impl Default for RhaiPolicies {
    fn default() -> Self {
        Self::new()
    }
}

impl Policies for RhaiPolicies {
    fn compile(&self, _which: Which, text: &str) -> Result<Arc<dyn Policy>, Fault> {
        // The names are known, so that one that is nowhere is found now; what they are is not, or it would be taken for it.
        let mut known = Scope::new();
        known.push_dynamic("request", Dynamic::UNIT);
        known.push_dynamic("resource", Dynamic::UNIT);
        let ast = guarded(|| self.engine.compile_with_scope(&known, text))?;
        let ast = ast.map_err(|error| fault(error.position(), &error.err_type().to_string()))?;
        Ok(Arc::new(Scorer { engine: self.engine.clone(), ast, sight: sight::of(text) }))
    }
}

struct Scorer {
    engine: Arc<Engine>,
    ast: AST,
    sight: Sight,
}

impl Policy for Scorer {
    fn score(&self, request: &Request<'_>, resource: Option<&Offer<'_>>, budget: &mut Budget) -> Result<i64, Fault> {
        self.run(&mut scope(request), resource, budget)
    }

    fn scores(&self, request: &Request<'_>, resources: &[Offer<'_>], budget: &mut Budget) -> Result<Vec<i64>, Fault> {
        let mut scope = scope(request);
        resources.iter().map(|resource| self.run(&mut scope, Some(resource), budget)).collect()
    }

    fn sight(&self) -> Sight {
        self.sight.clone()
    }
}

impl Scorer {
    /// The scope has the request, and nothing else when this is over.
    fn run(&self, scope: &mut Scope<'_>, resource: Option<&Offer<'_>>, budget: &mut Budget) -> Result<i64, Fault> {
        let own = scope.len();
        scope.push_constant_dynamic("resource", resource.map_or(Dynamic::UNIT, |resource| offer(resource).into()));
        ALLOWED.set(budget.left());
        TAKEN.set(0);
        // It is shown all of them.
        CHARGED.set(resource.map_or(0, |resource| resource.labels.iter().count() as u64));
        let value = guarded(|| self.engine.eval_ast_with_scope::<Dynamic>(scope, &self.ast));
        scope.rewind(own);
        let spent = budget.spend(TAKEN.get());
        match value? {
            Err(error) => match &*error {
                EvalAltResult::ErrorTerminated(_, at) if TAKEN.get() > CALL_OPERATIONS_MAX => {
                    Err(fault(*at, &too_many()))
                }
                EvalAltResult::ErrorTerminated(..) => spent.and_then(|()| Err(failure(&error))),
                error => Err(failure(error)),
            },
            Ok(value) => spent.and_then(|()| score(&value)),
        }
    }
}

/// A bug of the language must not be the end of the server: to the pool it is a script that fails. Nothing that the language
/// keeps between two scripts is changed by one.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Fault::new("is more than the language can do: it has a bug"))
}

fn score(value: &Dynamic) -> Result<i64, Fault> {
    if let Ok(score) = value.as_int() {
        return Ok(score);
    }
    if let Ok(yes) = value.as_bool() {
        return Ok(i64::from(yes));
    }
    let what = match value.type_name() {
        "()" => "nothing",
        "string" => "a text",
        "array" => "a list",
        "map" => "a map",
        other => other,
    };
    Err(Fault::new(format!("gives {what} in the end, and not a whole number or a truth value")))
}

fn scope(request: &Request<'_>) -> Scope<'static> {
    let mut map = Map::new();
    map.insert("holder".into(), request.holder.id.as_str().to_owned().into());
    map.insert("meta".into(), texts(request.holder.meta()).into());
    map.insert("units".into(), i64::from(request.units).into());
    map.insert("priority".into(), i64::from(request.priority.get()).into());
    map.insert("selector".into(), request.selector.map_or(Dynamic::UNIT, |text| text.to_owned().into()));
    map.insert("dirty".into(), request.dirty.into());
    map.insert("waited_ms".into(), i64::try_from(request.waited_ms).unwrap_or(i64::MAX).into());
    let mut scope = Scope::new();
    scope.push_constant_dynamic("request", map.into());
    scope
}

fn offer(resource: &Offer<'_>) -> Map {
    let mut map = Map::new();
    map.insert("name".into(), resource.name.as_str().to_owned().into());
    map.insert("labels".into(), texts(resource.labels.iter()).into());
    map
}

fn texts<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Map {
    entries.map(|(name, value)| (name.into(), value.to_owned().into())).collect()
}

/// The whole number that a label or a piece of metadata is, or `otherwise`.
fn number(value: Dynamic, otherwise: i64) -> i64 {
    match value.as_int() {
        Ok(number) => number,
        Err(_) => value.into_immutable_string().ok().and_then(|text| text.trim().parse().ok()).unwrap_or(otherwise),
    }
}

fn parse_int(text: &str, radix: i64) -> Result<i64, Box<EvalAltResult>> {
    charge(text.len() / BYTES_PER_OPERATION);
    let radix = u32::try_from(radix).ok().filter(|radix| (2..=36).contains(radix)).ok_or("there is no such radix")?;
    i64::from_str_radix(text.trim(), radix).map_err(|error| format!("`{text}` is no number: {error}").into())
}

/// Where texts and numbers are the same.
fn same(one: &Dynamic, other: &Dynamic) -> bool {
    match (one.as_int(), other.as_int()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.as_immutable_string_ref().is_ok_and(|one| other.as_immutable_string_ref().is_ok_and(|it| *one == *it)),
    }
}

fn whole(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn failure(error: &EvalAltResult) -> Fault {
    // What went wrong in a function matters, and not only that it was in one.
    let mut inner = error;
    while let EvalAltResult::ErrorInFunctionCall(_, _, within, _) = inner {
        inner = within;
    }
    let at = if inner.position().is_none() { error.position() } else { inner.position() };
    let why = match inner {
        EvalAltResult::ErrorTooManyOperations(_) => too_many(),
        other => {
            let mut bare = other.to_string();
            // The place is told apart.
            if let Some(end) = bare.rfind(" (line ") {
                bare.truncate(end);
            }
            // As people who do not write Rust know them.
            lower(&bare.replace("&str | ImmutableString | String", "text").replace("i64", "number"))
        }
    };
    fault(at, &why)
}

fn too_many() -> String {
    format!("takes more than the {CALL_OPERATIONS_MAX} operations that one score may take")
}

fn no_text(what: &str) -> Result<String, Box<EvalAltResult>> {
    Err(format!("{what} cannot be made a text").into())
}

fn fault(at: Position, why: &str) -> Fault {
    let whole = |number: Option<usize>| number.and_then(|number| u32::try_from(number).ok());
    match (whole(at.line()), whole(at.position())) {
        (Some(line), column) => Fault::at(line, column.unwrap_or(1), lower(why)),
        (None, _) => Fault::new(lower(why)),
    }
}

fn lower(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_of_the_language_is_a_script_that_fails() {
        let empty: [i64; 0] = [];
        let fault = guarded(|| empty[std::hint::black_box(0)]).expect_err("it panics");
        assert!(fault.why.contains("bug"), "{}", fault.why);
        assert_eq!(guarded(|| 1), Ok(1));
    }
}
