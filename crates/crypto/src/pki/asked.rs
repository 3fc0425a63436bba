//! What a signing request asks for, in words for who signs it.

use rcgen::SanType;

/// Why a request is not for this name, and how one is made that is.
pub(super) fn for_others(asked: &[SanType], common_names: &[String], name: &str) -> String {
    let found: Vec<String> = match asked.is_empty() {
        true => common_names
            .iter()
            .map(|name| format!("CN={name}"))
            .collect(),
        false => asked.iter().map(asked_for).collect(),
    };
    let found = match found.is_empty() {
        true => "no name".into(),
        false => found.join(", "),
    };
    format!(
        "asks for {found}, must ask for DNS:{name} as its only subjectAltName, or for none and for {name} as its only common \
         name (CN); with OpenSSL: openssl req -new -key {name}.key -subj \"/CN={name}\" -out {name}.csr"
    )
}

/// A name that a request asks for, as OpenSSL writes it.
fn asked_for(name: &SanType) -> String {
    match name {
        SanType::DnsName(name) => format!("DNS:{}", name.as_str()),
        SanType::Rfc822Name(name) => format!("email:{}", name.as_str()),
        SanType::URI(name) => format!("URI:{}", name.as_str()),
        SanType::IpAddress(address) => format!("IP:{address}"),
        _ => "other".into(),
    }
}
