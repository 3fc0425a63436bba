//! PEM as people hand it around: a byte order mark, text before and between the sections, blanks at the ends of lines,
//! lines of any length.
//!
//! Every reader of this workspace reads files through this file. So the same file is good for a party, a coordinator
//! and a CA, or bad for the same reason.

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";
/// Characters of a line of base64 (RFC 7468 section 3).
const LINE: usize = 64;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The label of a private key in PKCS#8.
pub(crate) const KEY: &str = "PRIVATE KEY";
/// The same under a passphrase.
pub(crate) const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";

/// What decrypts a key, or turns one of another form into PKCS#8.
const CONVERT: &str = "openssl pkcs8 -topk8 -nocrypt -in OLD.key -out NEW.key";

/// The text of a file. Bytes outside the sections need not be UTF-8.
///
/// # Errors
/// The file is UTF-16 or UTF-32, or binary; in words, with what to do.
pub fn text(bytes: Vec<u8>) -> Result<Zeroizing<String>, String> {
    let is_wide = bytes.starts_with(b"\xff\xfe")
        || bytes.starts_with(b"\xfe\xff")
        || bytes.first() == Some(&0)
        || bytes.get(1) == Some(&0);
    if is_wide {
        return Err("is UTF-16 or UTF-32: save it as UTF-8".into());
    }
    if bytes.contains(&0) {
        return Err(
            "is binary, not PEM: convert it, as in openssl x509 -inform DER -in FILE -out FILE.pem, for a signing request \
             with req in place of x509"
                .into(),
        );
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => {
            let bytes = Zeroizing::new(error.into_bytes());
            String::from_utf8_lossy(&bytes).into_owned().into()
        }
    })
}

/// One section, written as RFC 7468 has it.
struct Section {
    label: String,
    text: Zeroizing<String>,
}

/// Every section of a text, in order.
fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut lines = text.trim_start_matches(BYTE_ORDER_MARK).split(['\n', '\r']);
    let mut sections = Vec::new();
    while let Some(line) = lines.next() {
        let Some(label) = line.trim().strip_prefix(BEGIN) else {
            continue;
        };
        let label = label.strip_suffix(DASHES).ok_or_else(|| {
            format!("the line {BEGIN}… must end with {DASHES}: copy the file again")
        })?;
        let end = format!("{DASHES}END {label}{DASHES}");
        // A key is not moved while it grows: nothing of it is left where it was.
        let room = if label.ends_with("PRIVATE KEY") {
            text.len()
        } else {
            0
        };
        let mut body = Zeroizing::new(String::with_capacity(room));
        loop {
            match lines.next().map(str::trim) {
                Some(line) if line == end => break,
                Some(line) if !line.starts_with(BEGIN) => body.push_str(line),
                _ => {
                    return Err(format!(
                        "section {label:?} has no end, the line {end}: the file is cut short, copy it again"
                    ));
                }
            }
        }
        sections.push(Section {
            label: label.to_owned(),
            text: written(label, &body),
        });
    }
    Ok(sections)
}

/// A section in lines of 64 characters. Where the body is no ASCII it is no base64, which its decoder finds.
fn written(label: &str, body: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * (body.len() + label.len() + 32)));
    text.extend([BEGIN, label, DASHES, "\n"]);
    for (place, letter) in body.chars().filter(|c| !c.is_whitespace()).enumerate() {
        if place > 0 && place % LINE == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text.extend(["\n", DASHES, "END ", label, DASHES, "\n"]);
    text
}

/// The labels of the sections of a text, in order.
///
/// # Errors
/// A section without an end; in words.
pub fn labels(text: &str) -> Result<Vec<String>, String> {
    Ok(sections(text)?
        .into_iter()
        .map(|section| section.label)
        .collect())
}

/// Every certificate of a text, in order; there is at least one.
///
/// # Errors
/// There is none, or one is damaged; in words.
pub fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    decoded(text, "CERTIFICATE")
}

/// Every revocation list of a text, in order; none if the text is blank.
///
/// # Errors
/// A text without one, or one that is damaged; in words.
pub fn lists(text: &str) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    match text.trim().is_empty() {
        true => Ok(Vec::new()),
        false => decoded(text, "X509 CRL"),
    }
}

fn decoded<T: PemObject>(text: &str, label: &str) -> Result<Vec<T>, String> {
    let sections = sections(text)?;
    let decode = |section: &Section| {
        T::from_pem_slice(section.text.as_bytes()).map_err(|error| match error {
            pem::Error::Base64Decode(_) => {
                format!("section {label:?} is damaged, it is no base64: copy the file again")
            }
            other => format!("section {label:?}: {other}"),
        })
    };
    let wanted = sections.iter().filter(|section| section.label == label);
    let found: Vec<T> = wanted.map(decode).collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err(missing(label, &sections)),
        false => Ok(found),
    }
}

/// What is said of a text without the section that is needed.
fn missing(label: &str, sections: &[Section]) -> String {
    let found: Vec<_> = sections
        .iter()
        .map(|section| section.label.as_str())
        .collect();
    match found.is_empty() {
        true => format!("must hold a section {label:?}, and has no section at all"),
        false => format!(
            "must hold a section {label:?}, and has {}",
            found.join(", ")
        ),
    }
}

/// The private key of a text, the first where there are several: its label, and its section as RFC 7468 has it.
///
/// # Errors
/// There is none, or it is encrypted; in words, with what to do.
pub fn key(text: &str) -> Result<(String, Zeroizing<String>), String> {
    let mut sections = sections(text)?;
    let is_key = |section: &Section| section.label.ends_with("PRIVATE KEY");
    let Some(place) = sections.iter().position(is_key) else {
        return Err(missing("PRIVATE KEY", &sections));
    };
    let Section { label, text } = sections.swap_remove(place);
    // So OpenSSL marks an encrypted key of its older form.
    if text.contains("Proc-Type:") {
        return Err(format!(
            "section {label:?} is encrypted in OpenSSL's older form (Proc-Type), which is not read here, with or without a \
             passphrase: convert it (openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD.key -out NEW.key)"
        ));
    }
    if label == ENCRYPTED_KEY {
        return Err(format!(
            "the key is encrypted and no passphrase is given for it: give one (--key-passphrase-file of blindsum serve and \
             join, key_passphrase_file of blindsumd), or decrypt the key into a file that its owner alone can read ({CONVERT})"
        ));
    }
    if label == "OPENSSH PRIVATE KEY" {
        return Err(format!(
            "section {label:?} is a key for SSH, must be PKCS#8 \"PRIVATE KEY\": blindsum pki request makes one"
        ));
    }
    Ok((label, text))
}

/// The section of the first private key of a text as RFC 7468 has it, if it is one of PKCS#8 under a passphrase.
///
/// # Errors
/// A section without an end; in words.
pub fn encrypted_key(text: &str) -> Result<Option<Zeroizing<String>>, String> {
    let is_key = |section: &Section| section.label.ends_with(KEY);
    let first = sections(text)?.into_iter().find(is_key);
    let encrypted = first.filter(|section| section.label == ENCRYPTED_KEY);
    Ok(encrypted.map(|section| section.text))
}

/// Says of a key that can be read, but not by who needs it, how it is converted.
pub fn convert(label: &str) -> String {
    format!("section {label:?}, must be PKCS#8 \"PRIVATE KEY\": convert it ({CONVERT})")
}

/// The signing request of a text, the first where there are several, as RFC 7468 has it.
///
/// # Errors
/// There is none; in words.
pub fn request(text: &str) -> Result<String, String> {
    const LABEL: &str = "CERTIFICATE REQUEST";
    // Some older programs say NEW in front.
    let sections = sections(text)?;
    let is_one = |section: &&Section| section.label.trim_start_matches("NEW ") == LABEL;
    let found = sections.iter().find(is_one);
    let found = found.ok_or_else(|| missing(LABEL, &sections))?;
    Ok(found.text.replace("NEW CERTIFICATE", "CERTIFICATE"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = include_str!("../tests/data/ed25519.pem");

    /// The key of a text must be that of `PLAIN`.
    fn same(text: &str) {
        let (label, section) = key(text).unwrap();
        assert_eq!(
            (label.as_str(), section.as_str()),
            ("PRIVATE KEY", PLAIN),
            "{text:?}"
        );
    }

    #[test]
    fn a_key_is_read_however_its_file_was_handed_around() {
        same(PLAIN);
        same(&format!("\u{feff}{PLAIN}"));
        same(&format!(
            "Bag Attributes\n  friendlyName: gro\u{df}\n\n{PLAIN}"
        ));
        same(&PLAIN.replace('\n', " \t\n"));
        same(&PLAIN.replace('\n', "\r\n"));
        same(&PLAIN.replace('\n', "\r"));
        same(&format!(
            "{PLAIN}\n\n-----BEGIN X-----\nAA==\n-----END X-----"
        ));
        let body: String = PLAIN
            .lines()
            .filter(|line| !line.starts_with('-'))
            .collect();
        let short: Vec<String> = body.chars().map(String::from).collect();
        same(&format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
            short.join("\n")
        ));
    }

    #[test]
    fn what_cannot_be_read_says_what_to_do() {
        let why = |text: &str| key(text).unwrap_err();
        let encrypted = PLAIN.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        assert!(
            why(&encrypted).contains("openssl pkcs8 -topk8 -nocrypt"),
            "{}",
            why(&encrypted)
        );
        let older = PLAIN.replace("KEY-----\nM", "KEY-----\nProc-Type: 4,ENCRYPTED\nM");
        assert!(why(&older).contains("is encrypted"), "{}", why(&older));
        assert!(why("").contains("has no section at all"));
        let cut = PLAIN.split("-----END").next().unwrap();
        assert!(
            why(cut).contains("-----END PRIVATE KEY-----"),
            "{}",
            why(cut)
        );
        assert!(why("-----BEGIN PRIVATE KEY\nAA").contains("must end with"));
        let list = "-----BEGIN X509 CRL-----\nAAAA\n";
        let cut = lists(list).unwrap_err();
        assert!(cut.contains("section \"X509 CRL\" has no end"), "{cut}");
        let damaged =
            certificates("-----BEGIN CERTIFICATE-----\n*\u{e9}\n-----END CERTIFICATE-----");
        assert!(damaged.unwrap_err().contains("no base64"));
        let other = certificates(PLAIN).unwrap_err();
        assert!(other.contains("has PRIVATE KEY"), "{other}");
        for wide in [
            &b"\xff\xfe-\0-\0"[..],
            b"\xfe\xff\0-\0-",
            b"-\0-\0",
            b"\0-\0-",
        ] {
            assert!(text(wide.to_vec()).unwrap_err().contains("UTF-16"));
        }
        assert!(
            text(b"\x30\x82\x01\x00".to_vec())
                .unwrap_err()
                .contains("DER")
        );
        assert_eq!(text(b"gro\xdf".to_vec()).unwrap().as_str(), "gro\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".*", cut in 0..PLAIN.len(), more in "[-A-Z \n]{0,40}") {
            let pieces = [text.clone(), format!("{}{more}{}", &PLAIN[..cut], &PLAIN[cut..]), text + &PLAIN[cut..]];
            for text in pieces {
                let _ = (labels(&text), certificates(&text), lists(&text), key(&text), request(&text));
            }
        }

        #[test]
        fn blanks_change_nothing(blanks in prop::collection::vec("[ \t]{0,3}", 8), before in "[a-z \n]{0,30}") {
            let mut text = before + "\n";
            for (line, blank) in PLAIN.lines().zip(blanks.iter().cycle()) {
                text.push_str(&format!("{line}{blank}\n"));
            }
            same(&text);
        }
    }
}
