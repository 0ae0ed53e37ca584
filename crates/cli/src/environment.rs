//! A hold as environment variables, for commands and scripts.

use std::ffi::{OsStr, OsString};

use tenure_client::v1;

/// The longest value that Linux lets a program be started with, and its name.
const VARIABLE_BYTES_MAX: usize = 128 * 1024;
/// All variables together: beyond a quarter of the smallest stack that people have, starting a program fails.
const BYTES_MAX: usize = 1024 * 1024;

/// Whether the key is among them: whoever has it may release the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    Key,
    None,
}

/// What a program needs to know of a hold. Resources that would not fit are left out; their number is always right.
pub(crate) fn of(grant: &v1::Grant, secret: Secret) -> Vec<(String, String)> {
    let mut variables = Variables::default();
    variables.add("TENURE_POOL", &grant.pool);
    variables.add("TENURE_NAMESPACE", &grant.namespace);
    variables.add("TENURE_TOKEN", &grant.token.to_string());
    variables.add("TENURE_UNITS", &grant.units.to_string());
    if secret == Secret::Key {
        variables.add(crate::env::KEY, &grant.key);
    }
    if let Some(ttl) = grant.ttl_ms {
        variables.add("TENURE_TTL_MS", &ttl.to_string());
    }
    if let Some(deadline) = grant.deadline_ms {
        variables.add("TENURE_DEADLINE_MS", &deadline.to_string());
    }
    variables.add("TENURE_RESOURCE_COUNT", &grant.resources.len().to_string());
    if let Some(first) = grant.resources.first() {
        variables.add("TENURE_RESOURCE", &first.name);
        let names: Vec<_> = grant.resources.iter().map(|resource| resource.name.as_str()).collect();
        variables.add("TENURE_RESOURCES", &names.join(" "));
    }
    let mut hold = serde_json::to_value(grant).expect("messages of the API have a JSON form");
    if let Some(fields) = hold.as_object_mut().filter(|_| secret == Secret::None) {
        fields.remove("key");
    }
    variables.add("TENURE_HOLD", &hold.to_string());
    for (number, resource) in grant.resources.iter().enumerate() {
        variables.add_resource(&format!("TENURE_RESOURCE_{number}"), resource);
    }
    if !grant.also.is_empty() {
        variables.add("TENURE_POOL_COUNT", &(grant.also.len() + 1).to_string());
    }
    for (number, part) in (1..).zip(&grant.also) {
        let prefix = format!("TENURE_POOL_{number}");
        variables.add(&prefix, &part.pool);
        variables.add(&format!("{prefix}_UNITS"), &part.units.to_string());
        if let Some(deadline) = part.deadline_ms {
            variables.add(&format!("{prefix}_DEADLINE_MS"), &deadline.to_string());
        }
        if !part.resources.is_empty() {
            let names: Vec<_> = part.resources.iter().map(|resource| resource.name.as_str()).collect();
            variables.add(&format!("{prefix}_RESOURCES"), &names.join(" "));
        }
        for (number, resource) in part.resources.iter().enumerate() {
            variables.add_resource(&format!("{prefix}_RESOURCE_{number}"), resource);
        }
    }
    variables.list
}

/// The environment of this process with these set. What is in it of another hold, whose command this process may be,
/// would be mistaken for this one's.
pub(crate) fn with(set: Vec<(String, String)>) -> Vec<(OsString, OsString)> {
    let others = |name: &OsStr| is_of_some_holds(name) || set.iter().any(|(it, _)| OsStr::new(it) == name);
    let mut environment: Vec<_> = std::env::vars_os().filter(|(name, _)| !others(name)).collect();
    environment.extend(set.into_iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

fn is_of_some_holds(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("TENURE_RESOURCE") || name.starts_with("TENURE_POOL_") || OF_SOME_HOLDS.contains(&&*name)
}

/// Variables that only some holds have, those of resources aside.
const OF_SOME_HOLDS: [&str; 5] =
    ["TENURE_TTL_MS", "TENURE_DEADLINE_MS", "TENURE_HOLD", crate::env::KEY, crate::env::REQUEST_ID];

#[derive(Default)]
struct Variables {
    list: Vec<(String, String)>,
    bytes: usize,
}

impl Variables {
    fn add(&mut self, name: &str, value: &str) {
        let bytes = name.len() + value.len() + 2;
        if bytes <= VARIABLE_BYTES_MAX && self.bytes + bytes <= BYTES_MAX {
            self.bytes += bytes;
            self.list.push((name.to_owned(), value.to_owned()));
        }
    }

    fn add_resource(&mut self, prefix: &str, resource: &v1::Resource) {
        self.add(prefix, &resource.name);
        for (kind, pairs) in [("LABEL", &resource.labels), ("PROP", &resource.properties)] {
            for (name, value) in pairs {
                self.add(&format!("{prefix}_{kind}_{}", mangle(name)), value);
            }
        }
    }
}

/// A name that shells can use: capitals, digits and underscores.
fn mangle(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Commands for `eval` in any POSIX shell. What the shell has of an earlier hold and this one has not is taken away.
pub(crate) fn shell(variables: &[(String, String)]) -> String {
    let stale = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|name| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        plain && is_of_some_holds(OsStr::new(name)) && *name != crate::env::REQUEST_ID
    });
    let stale = stale.map(|name| format!("unset {name}\n"));
    let set = variables.iter().map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''")));
    stale.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(resources: Vec<v1::Resource>) -> v1::Grant {
        v1::Grant {
            pool: "gpus".into(),
            namespace: "default".into(),
            token: 7,
            key: "secret".into(),
            resources,
            ..v1::Grant::default()
        }
    }

    fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
        variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn resources_come_with_labels_and_properties() {
        let resource = v1::Resource {
            name: "gpu 1".into(),
            labels: [("mem".into(), "80".into())].into(),
            properties: [("ssh-host".into(), "rack-7".into())].into(),
        };
        let variables = of(&grant(vec![resource]), Secret::None);
        for (name, expected) in [
            ("TENURE_TOKEN", "7"),
            ("TENURE_RESOURCE", "gpu 1"),
            ("TENURE_RESOURCE_0_LABEL_MEM", "80"),
            ("TENURE_RESOURCE_0_PROP_SSH_HOST", "rack-7"),
            ("TENURE_RESOURCE_COUNT", "1"),
        ] {
            assert_eq!(value(&variables, name), Some(expected), "{name}");
        }
        assert!(!format!("{variables:?}").contains("secret"), "the key is in none of them");
        let hold: serde_json::Value = serde_json::from_str(value(&variables, "TENURE_HOLD").unwrap()).unwrap();
        assert_eq!(hold["resources"][0]["name"], "gpu 1");
    }

    #[test]
    fn every_pool_of_several_is_told_of() {
        let resource = |name: &str| v1::Resource { name: name.into(), ..v1::Resource::default() };
        let resources = vec![resource("a"), resource("b")];
        let also = vec![
            v1::GrantedPart { pool: "gpus".into(), units: 2, resources, deadline_ms: None },
            v1::GrantedPart { pool: "api".into(), units: 5, resources: Vec::new(), deadline_ms: Some(9) },
        ];
        let variables = of(&v1::Grant { also, ..grant(Vec::new()) }, Secret::None);
        for (name, expected) in [
            ("TENURE_POOL_COUNT", Some("3")),
            ("TENURE_POOL_1", Some("gpus")),
            ("TENURE_POOL_1_UNITS", Some("2")),
            ("TENURE_POOL_1_RESOURCES", Some("a b")),
            ("TENURE_POOL_1_RESOURCE_1", Some("b")),
            ("TENURE_POOL_1_DEADLINE_MS", None),
            ("TENURE_POOL_2_UNITS", Some("5")),
            ("TENURE_POOL_2_DEADLINE_MS", Some("9")),
        ] {
            assert_eq!(value(&variables, name), expected, "{name}");
        }
        let alone = of(&grant(Vec::new()), Secret::None);
        assert_eq!(value(&alone, "TENURE_POOL_COUNT"), None);
    }

    #[test]
    fn a_thousand_resources_can_still_be_started_with() {
        let resources = (0..10_000).map(|number| v1::Resource {
            name: format!("{number:0512}"),
            properties: [("p".into(), "v".repeat(1_024))].into(),
            ..v1::Resource::default()
        });
        let variables = of(&grant(resources.collect()), Secret::Key);
        assert!(variables.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>() <= BYTES_MAX);
        assert_eq!(value(&variables, "TENURE_RESOURCE_COUNT"), Some("10000"));
        assert!(value(&variables, "TENURE_HOLD").is_none(), "it is longer than a variable can be");
        let run = std::process::Command::new("true").envs(variables).status();
        assert!(run.unwrap().success());
    }

    #[test]
    fn a_shell_reads_what_was_written() {
        let variables = vec![("TENURE_POOL".to_owned(), "it's a \"pool\" $HOME `x` \\".to_owned())];
        let script = format!("{}printf %s \"$TENURE_POOL\"", shell(&variables));
        let printed = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap().stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), variables[0].1);
    }
}
