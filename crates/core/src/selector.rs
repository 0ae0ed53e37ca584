//! The boolean expression by which a request chooses among named resources: `gpu && mem >= 80 && !old`.
//!
//! ```text
//! any     = all ("||" all)*
//! all     = operand ("&&" operand)*
//! operand = "!" operand | "(" any ")" | text | text op text
//! op      = "==" | "!=" | "<" | "<=" | ">" | ">="
//! text    = word | '"' anything but control characters, with \" and \\ '"'
//! word    = one or more of: letters and digits of any script, _ - . : / @ +
//! ```
//!
//! What it means:
//! - A label alone is true when the resource has it, whatever its value, or when the resource is called so.
//! - `name` before an operator is the resource's own name; a label that happens to be called name is
//!   `"name"`, in quotes.
//! - A comparison with an unquoted decimal number (`-2`, `007`, `1.50`; no exponents) is of numbers, exactly,
//!   however many digits they have. Any other is of text, by bytes. So `"1.10"` in quotes is text, and a
//!   resource's name always is: 7 is not 07.
//! - A label that is absent, or no number where one is asked for, differs from everything: `!=` is true, every
//!   other comparison is false.
//! - `!` takes the whole comparison after it: `!mem >= 80` is `!(mem >= 80)`.
//!
//! Nothing here rearranges an expression: `a && b` and `b && a` are two selectors.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::decimal::Decimal;
use crate::limits::{SELECTOR_BYTES_MAX, SELECTOR_DEPTH_MAX};
use crate::names::{Labels, ResourceName};

/// Parsed, and cheap to clone. Compared by its canonical text, so that spaces, needless quotes and needless
/// parentheses make no difference.
#[derive(Clone)]
pub struct Selector(Arc<Parsed>);

struct Parsed {
    text: String,
    expr: Expr,
}

/// Where and why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {message}")]
pub struct SelectorError {
    pub at: usize,
    pub message: String,
}

impl Selector {
    /// The length limit counts neither the spaces between words nor the backslashes of escapes: the canonical
    /// text may have more of them than the source, and what was accepted once must be readable from the log.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { text, token: Token::End, at: 0, next: 0, bytes: 0, depth: 0 };
        parser.advance()?;
        if parser.token == Token::End {
            return Err(parser.error("the selector is empty"));
        }
        let expr = parser.any("")?;
        match parser.token {
            Token::End => Ok(Self::new(expr)),
            Token::Symbol(")") => Err(parser.error("`)` without a `(` before it")),
            _ => Err(parser.expected("`&&`, `||` or the end")),
        }
    }

    /// Exactly this resource, whatever characters its name has.
    pub fn named(name: &ResourceName) -> Self {
        Self::new(Expr::Compare { label: None, op: &EQUAL, value: name.as_str().to_owned(), numeric: false })
    }

    fn new(expr: Expr) -> Self {
        Self(Arc::new(Parsed { text: expr.to_string(), expr }))
    }

    pub fn matches(&self, name: &ResourceName, labels: &Labels) -> bool {
        self.0.expr.matches(name.as_str(), labels)
    }

    /// The canonical text, which parses back to an equal selector.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The one name that can match, if the selector is just `name == x`.
    pub fn exact_name(&self) -> Option<&str> {
        match &self.0.expr {
            Expr::Compare { label: None, op, value, .. } if op.symbol == EQUAL.symbol => Some(value),
            _ => None,
        }
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Selector {}

impl PartialOrd for Selector {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Selector {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// `All` and `Any` are flat (two or more, none of the same kind), so that only `!` and parentheses make the
/// tree deep, and those are bounded: evaluation and drop may recurse.
enum Expr {
    Has(String),
    Compare {
        /// None is the resource's own name.
        label: Option<String>,
        op: &'static Op,
        value: String,
        /// Whether the value is a number, rather than text that looks like one.
        numeric: bool,
    },
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
}

struct Op {
    symbol: &'static str,
    accepts: fn(Ordering) -> bool,
    accepts_incomparable: bool,
}

static EQUAL: Op = Op { symbol: "==", accepts: Ordering::is_eq, accepts_incomparable: false };
static NOT_EQUAL: Op = Op { symbol: "!=", accepts: Ordering::is_ne, accepts_incomparable: true };
static LESS: Op = Op { symbol: "<", accepts: Ordering::is_lt, accepts_incomparable: false };
static LESS_OR_EQUAL: Op = Op { symbol: "<=", accepts: Ordering::is_le, accepts_incomparable: false };
static GREATER: Op = Op { symbol: ">", accepts: Ordering::is_gt, accepts_incomparable: false };
static GREATER_OR_EQUAL: Op = Op { symbol: ">=", accepts: Ordering::is_ge, accepts_incomparable: false };
static OPS: [&Op; 6] = [&EQUAL, &NOT_EQUAL, &LESS, &LESS_OR_EQUAL, &GREATER, &GREATER_OR_EQUAL];

impl Expr {
    fn matches(&self, name: &str, labels: &Labels) -> bool {
        match self {
            Self::Has(word) => labels.get(word).is_some() || name == word,
            Self::Compare { label, op, value, numeric } => {
                let actual = label.as_ref().map_or(Some(name), |label| labels.get(label));
                let order = match actual {
                    Some(actual) if *numeric => {
                        Decimal::parse(actual).zip(Decimal::parse(value)).map(|(actual, value)| actual.cmp(&value))
                    }
                    Some(actual) => Some(actual.cmp(value)),
                    None => None,
                };
                order.map_or(op.accepts_incomparable, op.accepts)
            }
            Self::Not(expr) => !expr.matches(name, labels),
            Self::All(exprs) => exprs.iter().all(|expr| expr.matches(name, labels)),
            Self::Any(exprs) => exprs.iter().any(|expr| expr.matches(name, labels)),
        }
    }

    fn write_within(&self, parent: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (parent, self) {
            (Self::Not(_), Self::All(_) | Self::Any(_)) | (Self::All(_), Self::Any(_)) => write!(f, "({self})"),
            _ => write!(f, "{self}"),
        }
    }
}

/// The canonical text. It has no quotes or parentheses that the source did without, so it is within the limits
/// if the source was.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Has(word) => write_text(word, is_word(word), f),
            Self::Compare { label, op, value, numeric } => {
                match label {
                    None => f.write_str("name")?,
                    Some(label) => write_text(label, is_word(label) && label != "name", f)?,
                }
                write!(f, " {} ", op.symbol)?;
                let read_as_number = label.is_some() && Decimal::parse(value).is_some();
                write_text(value, is_word(value) && *numeric == read_as_number, f)
            }
            Self::Not(expr) => {
                f.write_str("!")?;
                expr.write_within(self, f)
            }
            Self::All(exprs) | Self::Any(exprs) => {
                let separator = if matches!(self, Self::All(_)) { " && " } else { " || " };
                for (index, expr) in exprs.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { separator })?;
                    expr.write_within(self, f)?;
                }
                Ok(())
            }
        }
    }
}

fn write_text(text: &str, bare: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bare { f.write_str(text) } else { write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")) }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word_char)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '@' | '+')
}

#[derive(Clone, PartialEq)]
enum Token {
    /// A word or, without its quotes and escapes, a quoted text.
    Text {
        content: String,
        quoted: bool,
    },
    Symbol(&'static str),
    End,
}

/// Those that begin others come after them.
const SYMBOLS: [&str; 11] = ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")"];

struct Parser<'a> {
    text: &'a str,
    /// The token to look at, where it starts, and where it ends.
    token: Token,
    at: usize,
    next: usize,
    /// Counted against [`SELECTOR_BYTES_MAX`] so far.
    bytes: usize,
    depth: usize,
}

impl Parser<'_> {
    /// `after`, here and below, is the symbol that came before, for the error.
    fn any(&mut self, mut after: &'static str) -> Result<Expr, SelectorError> {
        let mut exprs = Vec::new();
        loop {
            match self.all(after)? {
                Expr::Any(inner) => exprs.extend(inner),
                expr => exprs.push(expr),
            }
            after = "||";
            if !self.take(after)? {
                return Ok(if exprs.len() == 1 { exprs.remove(0) } else { Expr::Any(exprs) });
            }
        }
    }

    fn all(&mut self, mut after: &'static str) -> Result<Expr, SelectorError> {
        let mut exprs = Vec::new();
        loop {
            match self.operand(after)? {
                Expr::All(inner) => exprs.extend(inner),
                expr => exprs.push(expr),
            }
            after = "&&";
            if !self.take(after)? {
                return Ok(if exprs.len() == 1 { exprs.remove(0) } else { Expr::All(exprs) });
            }
        }
    }

    fn operand(&mut self, after: &'static str) -> Result<Expr, SelectorError> {
        let start = self.at;
        if self.take("!")? {
            self.descend(start)?;
            let expr = self.operand("!")?;
            self.depth -= 1;
            return Ok(Expr::Not(Box::new(expr)));
        }
        if self.take("(")? {
            self.descend(start)?;
            let expr = self.any("(")?;
            if self.token == Token::End {
                return Err(self.error(format!("expected `)` for the `(` at byte {start}")));
            }
            if !self.take(")")? {
                return Err(self.expected("`&&`, `||` or `)`"));
            }
            self.depth -= 1;
            return Ok(expr);
        }
        let Token::Text { content, quoted } = self.token.clone() else {
            return Err(match after {
                "" => self.expected("a label name"),
                _ => self.expected(&format!("a label name after `{after}`")),
            });
        };
        if content.is_empty() {
            return Err(self.error("a label name cannot be empty"));
        }
        self.advance()?;
        match OPS.into_iter().find(|op| self.token == Token::Symbol(op.symbol)) {
            None => Ok(Expr::Has(content)),
            Some(op) if content == "name" && !quoted => self.comparison(None, op),
            Some(op) => self.comparison(Some(content), op),
        }
    }

    fn comparison(&mut self, label: Option<String>, op: &'static Op) -> Result<Expr, SelectorError> {
        self.advance()?;
        let Token::Text { content: value, quoted } = self.token.clone() else {
            return Err(self.expected(&format!("a value after `{}`", op.symbol)));
        };
        self.advance()?;
        let numeric = label.is_some() && !quoted && Decimal::parse(&value).is_some();
        Ok(Expr::Compare { label, op, value, numeric })
    }

    fn take(&mut self, symbol: &'static str) -> Result<bool, SelectorError> {
        let found = self.token == Token::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn descend(&mut self, at: usize) -> Result<(), SelectorError> {
        self.depth += 1;
        if self.depth > SELECTOR_DEPTH_MAX {
            return Err(SelectorError { at, message: format!("nested more than {SELECTOR_DEPTH_MAX} deep") });
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), SelectorError> {
        let rest = self.text[self.next..].trim_start();
        self.at = self.text.len() - rest.len();
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let (token, length, counted) = match (symbol, rest.chars().next()) {
            (_, None) => (Token::End, 0, 0),
            (Some(symbol), _) => (Token::Symbol(symbol), symbol.len(), symbol.len()),
            (_, Some('"')) => {
                let (content, length) = self.quoted(&rest[1..])?;
                let counted = content.len() + 2;
                (Token::Text { content, quoted: true }, length + 2, counted)
            }
            (_, Some(first)) if is_word_char(first) => {
                let length = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
                (Token::Text { content: rest[..length].to_owned(), quoted: false }, length, length)
            }
            (_, Some(first)) => {
                return Err(self.error(match first {
                    '&' | '|' | '=' => format!("`{first}` is not an operator; write `{first}{first}`"),
                    '\'' | '‘' | '’' | '“' | '”' => format!("unexpected `{first}`; text is quoted with `\"`"),
                    _ => format!("unexpected `{}`; if it is part of a text, quote that", first.escape_debug()),
                }));
            }
        };
        self.bytes += counted;
        if self.bytes > SELECTOR_BYTES_MAX {
            return Err(self.error(format!("the selector has more than {SELECTOR_BYTES_MAX} bytes besides spaces")));
        }
        self.token = token;
        self.next = self.at + length;
        Ok(())
    }

    /// What stands between the quote before `rest` and the closing one, and how long that is as written.
    fn quoted(&self, rest: &str) -> Result<(String, usize), SelectorError> {
        let error = |at, message: &str| Err(SelectorError { at: self.at + 1 + at, message: message.to_owned() });
        let mut content = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Ok((content, at)),
                '\\' => match chars.next() {
                    Some((_, escaped @ ('"' | '\\'))) => content.push(escaped),
                    _ => return error(at, "a backslash must stand before `\"` or another backslash"),
                },
                // The text is going to stand in a log line and on a terminal.
                _ if c.is_control() => return error(at, "a quoted text cannot have control characters"),
                _ => content.push(c),
            }
        }
        Err(self.error("this quote is never closed"))
    }

    fn expected(&self, what: &str) -> SelectorError {
        match self.token {
            Token::End => self.error(format!("expected {what}")),
            _ => self.error(format!("expected {what}, found `{}`", &self.text[self.at..self.next])),
        }
    }

    fn error(&self, message: impl Into<String>) -> SelectorError {
        SelectorError { at: self.at, message: message.into() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::vec;

    use super::*;

    fn parse(text: &str) -> Selector {
        Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn resource(name: &str, labels: &[(&str, &str)]) -> (ResourceName, Labels) {
        (ResourceName::parse(name).unwrap(), Labels::parse(labels.iter().copied()).unwrap())
    }

    fn matches(text: &str, (name, labels): &(ResourceName, Labels)) -> bool {
        parse(text).matches(name, labels)
    }

    #[test]
    fn an_expression_is_true_of_the_resources_it_describes() {
        let big = resource("gpu-7", &[("gpu", ""), ("mem", "80"), ("zone", "eu west"), ("version", "1.10")]);
        let old = resource("gpu-8", &[("gpu", ""), ("mem", "9.50"), ("zone", "eu-east"), ("old", "yes")]);
        let odd = resource("07", &[("name", "seven"), ("mem", "lots"), ("größe", "-3"), ("a \"b\" \\", "")]);
        // expression, then: does it match big, old, odd?
        let table = [
            // A label alone.
            ("gpu", [true, true, false]),
            ("old", [false, true, false]),
            ("!old", [true, false, true]),
            ("!!old", [false, true, false]),
            ("gpu-8", [false, true, false]),
            ("07", [false, false, true]),
            ("7", [false, false, false]),
            ("name", [false, false, true]),
            ("größe", [false, false, true]),
            (r#""a \"b\" \\""#, [false, false, true]),
            (r#""gpu""#, [true, true, false]),
            // Numbers.
            ("mem == 80", [true, false, false]),
            ("mem == 080.0", [true, false, false]),
            ("mem == +80", [true, false, false]),
            ("mem != 80", [false, true, true]),
            ("mem == 9.5", [false, true, false]),
            ("mem < 80", [false, true, false]),
            ("mem <= 80", [true, true, false]),
            ("mem > 9", [true, true, false]),
            ("mem >= 10", [true, false, false]),
            ("mem > -100", [true, true, false]),
            ("größe < -2", [false, false, true]),
            ("größe < -3", [false, false, false]),
            ("größe < 0", [false, false, true]),
            // Text: in quotes, what is no number, and the resource's name.
            ("mem == \"80\"", [true, false, false]),
            ("mem == \"80.0\"", [false, false, false]),
            ("mem >= \"9\"", [false, true, true]),
            ("version == 1.1", [true, false, false]),
            ("version == \"1.1\"", [false, false, false]),
            ("mem == lots", [false, false, true]),
            ("mem < 8e1", [true, false, false]),
            ("zone == \"eu west\"", [true, false, false]),
            ("zone == eu-east", [false, true, false]),
            ("gpu == \"\"", [true, true, false]),
            ("name == gpu-7", [true, false, false]),
            ("name == \"gpu-7\"", [true, false, false]),
            ("name != gpu-7", [false, true, true]),
            ("name == 7", [false, false, false]),
            ("name == 07", [false, false, true]),
            ("name < gpu-8", [true, false, true]),
            ("\"name\" == seven", [false, false, true]),
            // An absent label differs from everything.
            ("zone == eu", [false, false, false]),
            ("zone != eu", [true, true, true]),
            ("zone < zzz", [true, true, false]),
            ("zone >= a", [true, true, false]),
            ("old != yes", [true, false, true]),
            ("old == yes", [false, true, false]),
            // What binds how.
            ("gpu && mem >= 80 && !old", [true, false, false]),
            ("old || gpu && mem >= 80", [true, true, false]),
            ("(old || gpu) && mem >= 80", [true, false, false]),
            ("07 || gpu && old", [false, true, true]),
            ("!gpu && old || gpu-7", [true, false, false]),
            ("!(gpu && old)", [true, false, true]),
            ("!mem >= 80", [false, true, true]),
            ("!(mem >= 80)", [false, true, true]),
            ("zone == \"eu west\" || name == gpu-8", [true, true, false]),
            ("(gpu||old)&&!old", [true, false, false]),
        ];
        for (text, expected) in table {
            assert_eq!([&big, &old, &odd].map(|resource| matches(text, resource)), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_exactly() {
        // In rising order; those in one row are equal.
        let rows = [
            vec!["-10000000000000000000000000000000000000001"],
            vec!["-10000000000000000000000000000000000000000", "-10000000000000000000000000000000000000000.0"],
            vec!["-10"],
            vec!["-9.5", "-09.50"],
            vec!["-0.001"],
            vec!["0", "-0", "+0", "0.0", "-00.00"],
            vec!["0.05"],
            vec!["0.4999999999999999999999999"],
            vec!["0.5", "+0.50"],
            vec!["9", "+9", "009.000"],
            vec!["9.00000000000000000000000000001"],
            vec!["10"],
            vec!["9007199254740992"],
            vec!["9007199254740993"],
        ];
        for (left_rank, left_row) in rows.iter().enumerate() {
            for (right_rank, right_row) in rows.iter().enumerate() {
                for (left, right) in left_row.iter().flat_map(|left| right_row.iter().map(move |right| (left, right))) {
                    let resource = resource("r", &[("n", left)]);
                    for op in OPS {
                        let text = format!("n {} {right}", op.symbol);
                        let expected = (op.accepts)(left_rank.cmp(&right_rank));
                        assert_eq!(matches(&text, &resource), expected, "{left}: {text}");
                    }
                }
            }
        }
        for text in ["", "-", ".", "1.", ".5", "1.2.3", "1e3", "0x1", "--1", "+-1", "1 ", "inf", "NaN", "١"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_bad_expression_is_told_where_and_why() {
        let table = [
            ("", "at byte 0: the selector is empty"),
            ("  \n", "at byte 3: the selector is empty"),
            ("a &&", "at byte 4: expected a label name after `&&`"),
            ("a || ", "at byte 5: expected a label name after `||`"),
            ("a && || b", "at byte 5: expected a label name after `&&`, found `||`"),
            ("&& a", "at byte 0: expected a label name, found `&&`"),
            ("!", "at byte 1: expected a label name after `!`"),
            ("!= a", "at byte 0: expected a label name, found `!=`"),
            ("()", "at byte 1: expected a label name after `(`, found `)`"),
            ("a == \"\" && \"\"", "at byte 11: a label name cannot be empty"),
            ("(a || b", "at byte 7: expected `)` for the `(` at byte 0"),
            ("a && ((b)", "at byte 9: expected `)` for the `(` at byte 5"),
            ("(a b)", "at byte 3: expected `&&`, `||` or `)`, found `b`"),
            ("a)", "at byte 1: `)` without a `(` before it"),
            ("a and b", "at byte 2: expected `&&`, `||` or the end, found `and`"),
            ("a \"b c\"", "at byte 2: expected `&&`, `||` or the end, found `\"b c\"`"),
            ("a !b", "at byte 2: expected `&&`, `||` or the end, found `!`"),
            ("1 < mem < 5", "at byte 8: expected `&&`, `||` or the end, found `<`"),
            ("(a) == b", "at byte 4: expected `&&`, `||` or the end, found `==`"),
            ("a ==", "at byte 4: expected a value after `==`"),
            ("a >= && b", "at byte 5: expected a value after `>=`, found `&&`"),
            ("a <> b", "at byte 3: expected a value after `<`, found `>`"),
            ("a === b", "at byte 4: `=` is not an operator; write `==`"),
            ("a & b", "at byte 2: `&` is not an operator; write `&&`"),
            ("a | b", "at byte 2: `|` is not an operator; write `||`"),
            ("größe = 3", "at byte 8: `=` is not an operator; write `==`"),
            ("zone == 'eu west'", "at byte 8: unexpected `'`; text is quoted with `\"`"),
            ("zone == “eu west”", "at byte 8: unexpected `“`; text is quoted with `\"`"),
            ("a, b", "at byte 1: unexpected `,`; if it is part of a text, quote that"),
            ("a\0", "at byte 1: unexpected `\\0`; if it is part of a text, quote that"),
            ("zone == \"eu", "at byte 8: this quote is never closed"),
            ("zone == \"eu\\\"", "at byte 8: this quote is never closed"),
            ("zone == \"e\\u\"", "at byte 10: a backslash must stand before `\"` or another backslash"),
            ("zone == \"e\\", "at byte 10: a backslash must stand before `\"` or another backslash"),
            ("zone == \"e\tu\"", "at byte 10: a quoted text cannot have control characters"),
        ];
        for (text, expected) in table {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn the_canonical_text_has_only_the_spaces_quotes_and_parentheses_it_needs() {
        let table = [
            ("gpu&&mem>=80&&!old", "gpu && mem >= 80 && !old"),
            ("\tgpu\n&&  ! ( old )\u{a0}", "gpu && !old"),
            ("((a && b) && (c && d)) || (e || f)", "a && b && c && d || e || f"),
            ("(a || b) && !(c && d) && !(e)", "(a || b) && !(c && d) && !e"),
            ("!(!(a))", "!!a"),
            ("(((name == \"gpu-7\")))", "name == gpu-7"),
            ("name == \"7\"", "name == 7"),
            ("\"name\" == \"x\"", "\"name\" == x"),
            ("\"name\"", "name"),
            ("\"mem\" == \"80\"", "mem == \"80\""),
            ("mem == 080", "mem == 080"),
            ("zone == \"\"", "zone == \"\""),
            (r#"zone == "a\"\\b""#, r#"zone == "a\"\\b""#),
            ("größe == \"größer\"", "größe == größer"),
        ];
        for (text, canonical) in table {
            assert_eq!(parse(text).as_str(), canonical, "{text}");
            assert_eq!(parse(canonical).as_str(), canonical);
            assert_eq!(parse(text), parse(canonical));
        }
        assert_ne!(parse("mem == 80"), parse("mem == \"80\""));
        assert!(parse("a && b") < parse("a && c"));
        assert_eq!(format!("{0} {0:?}", parse("a == \"\"")), r#"a == "" "a == \"\"""#);
    }

    #[test]
    fn a_selector_by_name_matches_that_name_only() {
        let long = "\"\\".repeat(256);
        let names = ["gpu-7", "7", "07", "name", "a b", "\"", "\\\"", "&& ||", "größe", "¿", "!", "()", &long];
        for name in names {
            let selector = Selector::named(&ResourceName::parse(name).unwrap());
            assert_eq!(selector.exact_name(), Some(name));
            let reparsed = parse(selector.as_str());
            assert_eq!(reparsed, selector);
            assert_eq!(reparsed.exact_name(), Some(name));
            for other in names {
                let (other_name, labels) = resource(other, &[("gpu-7", ""), ("name", "gpu-7")]);
                assert_eq!(selector.matches(&other_name, &labels), name == other, "{selector} {other}");
                assert_eq!(reparsed.matches(&other_name, &labels), name == other, "{selector} {other}");
            }
        }
        assert_eq!(parse("(name==\"a b\")").exact_name(), Some("a b"));
        for text in ["gpu-7", "name", "name != x", "name <= x", "!name == x", "\"name\" == x", "name == x || name == y"]
        {
            assert_eq!(parse(text).exact_name(), None, "{text}");
        }
    }

    #[test]
    fn a_nesting_bomb_is_refused_and_what_is_just_allowed_works() {
        let (name, labels) = resource("a", &[]);
        let not = |depth| "!".repeat(depth) + "a";
        let parentheses = |depth| "(".repeat(depth) + "a" + &")".repeat(depth);
        let mixed = |depth: usize| "!(b || ".repeat(depth / 2) + "a" + &")".repeat(depth / 2);
        let alternating = |depth: usize| "(b || a && ".repeat(depth) + "a" + &")".repeat(depth);
        for text in [not(32), parentheses(32), mixed(32), alternating(32)] {
            let selector = parse(&text);
            assert!(selector.matches(&name, &labels));
            assert_eq!(parse(selector.as_str()), selector);
        }
        for (text, at) in [(not(33), 32), (parentheses(33), 32), (mixed(34), 112), (not(1_000_000), 32)] {
            let error = Selector::parse(&text).unwrap_err();
            assert_eq!(error, SelectorError { at, message: "nested more than 32 deep".into() });
        }
        // Depth is of nesting, not of how many there are.
        parse(&vec!["!(!a)"; 100].join(" || "));
    }

    #[test]
    fn a_selector_may_be_long_but_not_too_long() {
        let (name, labels) = resource("x", &[("a", "")]);
        for joiner in ["&&", "||"] {
            let full = vec!["a"; 341].join(joiner) + "aaa";
            assert_eq!(full.len(), SELECTOR_BYTES_MAX);
            let selector = parse(&full);
            assert!(selector.as_str().len() > SELECTOR_BYTES_MAX, "the canonical text has spaces");
            assert_eq!(parse(selector.as_str()), selector);
            assert_eq!(selector.matches(&name, &labels), joiner == "||");
            let error = Selector::parse(&(full + "a")).unwrap_err();
            assert_eq!(error.to_string(), "at byte 1020: the selector has more than 1024 bytes besides spaces");
        }
        parse(&(" ".repeat(2_000) + "a"));
        parse(&format!("a == \"{}\"", "\\\\".repeat(1_019)));
        Selector::parse(&format!("a == \"{}\"", "\\\\".repeat(1_020))).unwrap_err();
        Selector::parse(&"a&&".repeat(1_000_000)).unwrap_err();
    }

    /// Xorshift: the same numbers in every run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap() % end
        }

        fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
            choices[self.below(choices.len())]
        }
    }

    type Resource = (&'static str, &'static [(&'static str, &'static str)]);

    const RESOURCES: [Resource; 4] = [
        ("a", &[("b", "1"), ("name", "b")]),
        ("b", &[("a", "2.50"), ("c d", "x y")]),
        ("1", &[("a", "-1"), ("b", "x"), ("c d", "")]),
        ("x y", &[]),
    ];

    /// A random expression in a random spelling, and what it should say of each resource, worked out on the way
    /// down with floats and binary operators. `around` is the operator that it is an operand of, if any.
    fn spell(random: &mut Numbers, depth: usize, around: &str, out: &mut String) -> [bool; 4] {
        out.push_str(random.one_of(&["", "", " "]));
        let truth = match random.below(if depth == 0 { 2 } else { 6 }) {
            0 => {
                let word = random.one_of(&["a", "b", "name", "\"a\"", "\"c d\"", "1", "\"x y\""]);
                out.push_str(word);
                let word = word.trim_matches('"');
                RESOURCES.map(|(name, labels)| name == word || labels.iter().any(|(label, _)| *label == word))
            }
            1 => {
                let label = random.one_of(&["a", "b", "name", "\"name\"", "\"c d\"", "missing"]);
                let op = random.one_of(&["==", "!=", "<", "<=", ">", ">="]);
                let value = random.one_of(&["1", "\"1\"", "01.0", "2.5", "\"2.5\"", "-3", "b", "\"x y\"", "\"\"", "x"]);
                let space = random.one_of(&["", " "]);
                out.push_str(&[label, space, op, space, value].concat());
                RESOURCES.map(|(name, labels)| {
                    let found = labels.iter().find(|(found, _)| *found == label.trim_matches('"'));
                    let actual = if label == "name" { Some(name) } else { found.map(|(_, actual)| *actual) };
                    let Some(actual) = actual else { return op == "!=" };
                    let ordering = match (actual.parse::<f64>(), value.parse::<f64>()) {
                        (Ok(actual), Ok(value)) if label != "name" => actual.partial_cmp(&value).unwrap(),
                        (Err(_), Ok(_)) if label != "name" => return op == "!=",
                        _ => actual.cmp(value.trim_matches('"')),
                    };
                    match op {
                        "==" => ordering.is_eq(),
                        "!=" => ordering.is_ne(),
                        "<" => ordering.is_lt(),
                        "<=" => ordering.is_le(),
                        ">" => ordering.is_gt(),
                        _ => ordering.is_ge(),
                    }
                })
            }
            2 => {
                out.push('!');
                spell(random, depth - 1, "!", out).map(|truth| !truth)
            }
            3 => {
                out.push('(');
                let truth = spell(random, depth - 1, "", out);
                out.push(')');
                truth
            }
            choice => {
                let joiner = if choice == 4 { "&&" } else { "||" };
                let needs_parentheses = around == "!" || around == "&&" && joiner == "||";
                out.push_str(if needs_parentheses { "(" } else { "" });
                let left = spell(random, depth - 1, joiner, out);
                out.push_str(joiner);
                let right = spell(random, depth - 1, joiner, out);
                out.push_str(if needs_parentheses { ")" } else { "" });
                [0, 1, 2, 3].map(|i| if choice == 4 { left[i] && right[i] } else { left[i] || right[i] })
            }
        };
        out.push_str(random.one_of(&["", "", " "]));
        truth
    }

    #[test]
    fn random_expressions_mean_what_a_reference_says_and_survive_a_round_trip() {
        let resources = RESOURCES.map(|(name, labels)| resource(name, labels));
        let mut random = Numbers(0x9e37_79b9_7f4a_7c15);
        for round in 0..20_000 {
            let mut text = String::new();
            let expected = spell(&mut random, round % 6, "", &mut text);
            let selector = parse(&text);
            let reparsed = parse(selector.as_str());
            assert_eq!(reparsed, selector, "{text}");
            for selector in [selector, reparsed] {
                let found = [0, 1, 2, 3].map(|i| selector.matches(&resources[i].0, &resources[i].1));
                assert_eq!(found, expected, "{text} as {selector}");
            }
        }
    }

    #[test]
    fn any_short_sequence_of_tokens_is_refused_or_survives_a_round_trip() {
        let tokens = ["a", "name", "7", "\"b c\"", "\"7\"", "\"", "\\", "!", "(", ")", "&&", "||", "==", "<", "=", "ß"];
        let resources = RESOURCES.map(|(name, labels)| resource(name, labels));
        let mut accepted = 0;
        for number in 0..tokens.len().pow(4) {
            for space in ["", " "] {
                let text =
                    [0, 1, 2, 3].map(|place| tokens[number / tokens.len().pow(place) % tokens.len()]).join(space);
                match Selector::parse(&text) {
                    Ok(selector) => {
                        accepted += 1;
                        let reparsed = parse(selector.as_str());
                        assert_eq!(reparsed, selector, "{text}");
                        for (name, labels) in &resources {
                            assert_eq!(reparsed.matches(name, labels), selector.matches(name, labels), "{text}");
                        }
                    }
                    Err(error) => assert!(text.is_char_boundary(error.at), "{text}: {error}"),
                }
            }
        }
        assert!(accepted > 1_000, "{accepted}");
    }
}
