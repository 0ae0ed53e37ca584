//! Where the server is, as people write it: `host:port`, `host`, `http://host:port` or, with TLS, `https://host:port`.

/// The port on which a server listens for gRPC if nothing else is said.
pub(crate) const PORT_DEFAULT: u16 = 3144;

/// As it was given, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) given: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    scheme: Option<Scheme>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Address {
    pub(crate) fn parse(given: String) -> Result<Self, (String, String)> {
        match parts(&given) {
            Ok((scheme, host, port)) => Ok(Self { host: host.to_owned(), port, scheme, given }),
            Err(why) => Err((given, why)),
        }
    }

    /// Whether it is to be spoken to in TLS. An address that does not say leaves it to what else was said.
    pub(crate) fn is_tls(&self, otherwise: bool) -> bool {
        self.scheme.map_or(otherwise, |scheme| scheme == Scheme::Https)
    }

    /// With the brackets that an IPv6 address needs in front of a port.
    pub(crate) fn uri(&self, tls: bool) -> String {
        let scheme = if tls { "https" } else { "http" };
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }
}

fn parts(given: &str) -> Result<(Option<Scheme>, &str, u16), String> {
    let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https)];
    let named = schemes.into_iter().find_map(|(prefix, scheme)| Some((Some(scheme), given.strip_prefix(prefix)?)));
    let (scheme, text) = named.unwrap_or((None, given));
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
        None => Ok((scheme, host, PORT_DEFAULT)),
        Some(Ok(port)) if port > 0 => Ok((scheme, host, port)),
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
            assert_eq!(Address::parse(given.to_owned()).unwrap().uri(false), uri, "{given}");
        }
    }

    #[test]
    fn tls_is_spoken_if_the_address_says_so_or_leaves_it_open() {
        for (given, plain, secure) in [("https://h", true, true), ("http://h", false, false), ("h", false, true)] {
            let address = Address::parse(given.to_owned()).unwrap();
            assert_eq!((address.is_tls(false), address.is_tls(true)), (plain, secure), "{given}");
        }
        assert_eq!(Address::parse("https://[::1]".to_owned()).unwrap().uri(true), "https://[::1]:3144");
    }

    #[test]
    fn what_is_no_address_is_said_to_be_none() {
        for given in
            ["", "host:", "host:0", "host:99999", "ho st:1", "a/b:1", "https://", "ftp://host:1", "[::1", "[::1]x"]
        {
            let (_, why) = Address::parse(given.to_owned()).unwrap_err();
            assert!(!why.is_empty(), "{given}");
        }
    }
}
