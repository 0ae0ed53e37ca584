//! Whatever text: refused or understood as a selector or a name, and the same again after a round trip.

use std::fmt::Debug;

use tenure_core::*;
use tenure_fuzz::{fuzz, word};

#[test]
fn any_text_is_refused_or_understood_as_a_selector() {
    let samples = ["gpu && mem >= 80 && !old", "a || (b && !(c)) == \"x y\"", "name == gpu-7", "x <= -00.1230"];
    let words = [
        "&&", "||", "!", "(", ")", "==", "!=", "<", "<=", ">", ">=", "\"", "\\\"", "-", ".", " ", "name", "0.1", "é",
        "\u{202e}",
    ];
    fuzz("selector", &samples.map(|text| text.as_bytes().to_vec()), &words, |input| {
        let Ok(text) = str::from_utf8(input) else { return "not UTF-8".into() };
        match Selector::parse(text) {
            Ok(selector) => {
                let again = Selector::parse(selector.as_str()).expect("its own text is one");
                assert_eq!(again.as_str(), selector.as_str());
                format!("{} understood", selector.as_str().len().ilog2())
            }
            Err(error) => word(&error),
        }
    });
}

#[test]
fn any_text_is_refused_or_understood_as_a_name() {
    fn parsed<T: Debug, E: ToString>(parsed: Result<T, E>) -> String {
        parsed.map_or_else(|error| word(&error), |_| "understood".into())
    }
    let samples = ["default", "größe 1", "00000000-0000-4000-8000-000000000000"].map(|text| text.as_bytes().to_vec());
    fuzz("names", &samples, &["\0", "\n", "\u{85}", "\u{202e}", " ", "-", "x"], |input| {
        let Ok(text) = str::from_utf8(input) else { return "not UTF-8".into() };
        let all = [
            parsed(Namespace::parse(text)),
            parsed(PoolName::parse(text)),
            parsed(ResourceName::parse(text)),
            parsed(HolderId::parse(text)),
            parsed(RequestId::parse(text)),
            parsed(OwnerId::parse(text)),
            parsed(Note::parse(text)),
            parsed(LabelName::parse(text)),
            parsed(Key::parse(text)),
        ];
        all.join(",")
    });
}
