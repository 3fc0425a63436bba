//! What a signing request asks for, in words for who signs it.

use rcgen::SanType;

/// Why a request is not for this name, and how one is made that is.
pub(super) fn for_others(asked: &[SanType], name: &str) -> String {
    let asked: Vec<String> = asked.iter().map(asked_for).collect();
    format!(
        "asks for [{}], must ask for DNS:{name} as its only subjectAltName (a common name does not count); with OpenSSL: \
         openssl req -new -key {name}.key -subj \"/CN={name}\" -addext \"subjectAltName=DNS:{name}\" -out {name}.csr",
        asked.join(", ")
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
