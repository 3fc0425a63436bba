//! Certificates as PEM text; Python writes the files.

use blindsum_crypto::encrypted;
use blindsum_crypto::pem;
use blindsum_crypto::pki::{self, CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::Algorithm;
use blindsum_crypto::usage::Role;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, raise};
use crate::system::{random, unix_seconds};

fn algorithm(py: Python<'_>, name: &str) -> PyResult<Algorithm> {
    match name {
        "ed25519" => Ok(Algorithm::Ed25519),
        "p256" => Ok(Algorithm::P256),
        _ => {
            let rule = format!("must be ed25519 or p256, not {name:?}");
            Err(raise(py, "ConfigError", ("algorithm", rule)))
        }
    }
}

/// Whom a certificate is for. A party and an operator have no hosts.
fn kind(py: Python<'_>, role: &str, hosts: Vec<String>) -> PyResult<Kind> {
    match role {
        "party" => Ok(Kind::Party),
        "coordinator" => Ok(Kind::Coordinator { hosts }),
        "server" => Ok(Kind::Server { hosts }),
        "operator" => Ok(Kind::Operator),
        _ => {
            let rule = format!("must be party, coordinator, server or operator, not {role:?}");
            Err(raise(py, "ConfigError", ("role", rule)))
        }
    }
}

/// The validity of what a CA signs now.
fn validity(py: Python<'_>, authority: &CertificateAuthority, days: u32) -> PyResult<Validity> {
    authority.validity(unix_seconds(), days).or_raise(py)
}

/// A new CA: certificate and key.
#[pyfunction]
pub fn pki_create_authority(
    py: Python<'_>,
    name: &str,
    algorithm_name: &str,
    days: u32,
) -> PyResult<(String, String)> {
    let algorithm = algorithm(py, algorithm_name)?;
    let validity = Validity::made(unix_seconds(), days);
    let authority =
        CertificateAuthority::create(name, algorithm, validity, &mut random()?).or_raise(py)?;
    let key = authority.key().or_raise(py)?;
    Ok((authority.certificate().into(), key.to_string()))
}

/// A key and its certificate, for somebody of this role.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn pki_issue(
    py: Python<'_>,
    authority: (&str, &str),
    name: &str,
    role: &str,
    hosts: Vec<String>,
    algorithm_name: &str,
    days: u32,
) -> PyResult<(String, String)> {
    let algorithm = algorithm(py, algorithm_name)?;
    let authority = CertificateAuthority::load(authority.0, authority.1).or_raise(py)?;
    let issued = authority
        .issue(
            name,
            &kind(py, role, hosts)?,
            algorithm,
            validity(py, &authority, days)?,
            &mut random()?,
        )
        .or_raise(py)?;
    Ok((issued.certificate, issued.key.to_string()))
}

/// A signing request and its key.
#[pyfunction]
pub fn pki_request(py: Python<'_>, name: &str, algorithm_name: &str) -> PyResult<(String, String)> {
    let algorithm = algorithm(py, algorithm_name)?;
    let request = pki::request(name, algorithm, &mut random()?).or_raise(py)?;
    Ok((request.request, request.key.to_string()))
}

/// The certificate that a request asks for.
#[pyfunction]
pub fn pki_sign(
    py: Python<'_>,
    authority: (&str, &str),
    request: &str,
    name: &str,
    role: &str,
    hosts: Vec<String>,
    days: u32,
) -> PyResult<String> {
    let authority = CertificateAuthority::load(authority.0, authority.1).or_raise(py)?;
    authority
        .sign_request(
            request,
            name,
            &kind(py, role, hosts)?,
            validity(py, &authority, days)?,
            &mut random()?,
        )
        .or_raise(py)
}

/// The revocation list number `number` with these serial numbers.
#[pyfunction]
pub fn pki_revoke(
    py: Python<'_>,
    authority: (&str, &str),
    serials: Vec<String>,
    number: u64,
    days: u32,
) -> PyResult<String> {
    let authority = CertificateAuthority::load(authority.0, authority.1).or_raise(py)?;
    let serials: Vec<&str> = serials.iter().map(String::as_str).collect();
    authority
        .revoke(&serials, number, validity(py, &authority, days)?)
        .or_raise(py)
}

/// Whether the CA of a certificate has signed another one.
#[pyfunction]
pub fn pki_has_signed(py: Python<'_>, authority: &str, certificate: &str) -> PyResult<bool> {
    pki::has_signed(authority, certificate).or_raise(py)
}

/// A private key under a passphrase.
#[pyfunction]
pub fn pki_encrypt(py: Python<'_>, key: &str, passphrase: &str) -> PyResult<String> {
    encrypted::encrypt(key, passphrase, &mut random()?).or_raise(py)
}

/// A private key without its passphrase, as it is if it has none.
#[pyfunction]
pub fn pki_decrypt(py: Python<'_>, key: &str, passphrase: &str) -> PyResult<String> {
    let plain = encrypted::decrypt(key, passphrase).or_raise(py)?;
    Ok(plain.to_string())
}

/// What a certificate says; nothing of it has been verified.
#[pyfunction]
pub fn pki_describe<'py>(py: Python<'py>, certificate: &str) -> PyResult<Bound<'py, PyDict>> {
    let text = pki::describe(certificate).or_raise(py)?;
    let fields = PyDict::new(py);
    fields.set_item("subject", text.subject)?;
    fields.set_item("issuer", text.issuer)?;
    fields.set_item("names", text.names)?;
    fields.set_item("serial", text.serial)?;
    fields.set_item("not_before", text.not_before)?;
    fields.set_item("not_after", text.not_after)?;
    fields.set_item("fingerprint", text.fingerprint)?;
    fields.set_item("key", text.key)?;
    fields.set_item("key_fingerprint", text.key_fingerprint)?;
    fields.set_item("is_ca", text.is_ca)?;
    fields.set_item("client", text.client)?;
    fields.set_item("server", text.server)?;
    let role = text
        .role
        .map_or(if text.is_ca { "ca" } else { "none" }, Role::name);
    fields.set_item("role", role)?;
    Ok(fields)
}

/// What a signing request asks for.
#[pyfunction]
pub fn pki_describe_request<'py>(py: Python<'py>, request: &str) -> PyResult<Bound<'py, PyDict>> {
    let text = pki::describe_request(request).or_raise(py)?;
    let fields = PyDict::new(py);
    fields.set_item("subject", text.subject)?;
    fields.set_item("names", text.names)?;
    fields.set_item("key", text.key)?;
    fields.set_item("key_fingerprint", text.key_fingerprint)?;
    Ok(fields)
}

/// What is public of a private key.
#[pyfunction]
pub fn pki_describe_key<'py>(py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyDict>> {
    let text = pki::describe_key(key).or_raise(py)?;
    let fields = PyDict::new(py);
    fields.set_item("key", text.key)?;
    fields.set_item("key_fingerprint", text.key_fingerprint)?;
    Ok(fields)
}

/// What a revocation list says; nothing of it has been verified.
#[pyfunction]
pub fn pki_describe_list<'py>(py: Python<'py>, list: &str) -> PyResult<Bound<'py, PyDict>> {
    let text = pki::describe_list(list).or_raise(py)?;
    let fields = PyDict::new(py);
    fields.set_item("issuer", text.issuer)?;
    fields.set_item("number", text.number)?;
    fields.set_item("this_update", text.this_update)?;
    fields.set_item("next_update", text.next_update)?;
    fields.set_item("serials", text.serials)?;
    Ok(fields)
}

/// The text of a file of PEM, without a byte order mark. What it holds is secret if it is a key.
#[pyfunction]
pub fn pem_text(py: Python<'_>, bytes: Vec<u8>) -> PyResult<String> {
    let text = pem::text(bytes).map_err(|why| raise(py, "IdentityError", (why,)))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The labels of the sections of a text of PEM, in order.
#[pyfunction]
pub fn pem_labels(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    pem::labels(text).map_err(|why| raise(py, "IdentityError", (why,)))
}
