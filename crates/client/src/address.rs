//! Where the server is, as people write it: `host:port`, `host` or `http://host:port`.

/// The port on which a server listens for gRPC if nothing else is said.
pub(crate) const PORT_DEFAULT: u16 = 3144;

/// As it was given, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) given: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn parse(given: String) -> Result<Self, (String, String)> {
        match parts(&given) {
            Ok((host, port)) => Ok(Self { host: host.to_owned(), port, given }),
            Err(why) => Err((given, why)),
        }
    }

    /// With the brackets that an IPv6 address needs in front of a port.
    pub(crate) fn uri(&self) -> String {
        if self.host.contains(':') {
            format!("http://[{}]:{}", self.host, self.port)
        } else {
            format!("http://{}:{}", self.host, self.port)
        }
    }
}

fn parts(given: &str) -> Result<(&str, u16), String> {
    if given.starts_with("https://") {
        return Err("TLS is not spoken; write http://host:port".to_owned());
    }
    let text = given.strip_prefix("http://").unwrap_or(given);
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or("the bracket in the address is not closed")?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(EXPECTED)?) })
        }
        // More than one colon without brackets is a bare IPv6 address.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let usable = |character: char| character.is_alphanumeric() || "-._:%".contains(character);
    if host.is_empty() || !host.chars().all(usable) {
        return Err(EXPECTED.to_owned());
    }
    match port.map(str::parse) {
        None => Ok((host, PORT_DEFAULT)),
        Some(Ok(port)) if port > 0 => Ok((host, port)),
        Some(_) => Err("the port is not a number from 1 to 65535".to_owned()),
    }
}

const EXPECTED: &str = "this is not an address; write host:port";

/// Whether something is an address at all, and if not, why.
pub fn check_address(address: &str) -> Result<(), String> {
    Address::parse(address.to_owned()).map(|_| ()).map_err(|(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (given, uri) in [
            ("127.0.0.1:3144", "http://127.0.0.1:3144"),
            ("db.internal:99", "http://db.internal:99"),
            ("http://db.internal:99/", "http://db.internal:99"),
            ("localhost", "http://localhost:3144"),
            ("[::1]:99", "http://[::1]:99"),
            ("::1", "http://[::1]:3144"),
        ] {
            assert_eq!(Address::parse(given.to_owned()).unwrap().uri(), uri, "{given}");
        }
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        for given in ["", "host:", "host:0", "host:99999", "ho st:1", "a/b:1", "https://host:1", "[::1", "[::1]x"] {
            let (_, why) = Address::parse(given.to_owned()).unwrap_err();
            assert!(!why.is_empty(), "{given}");
        }
    }
}
