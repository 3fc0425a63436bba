//! A CA between the job's CA and those who show its certificates.

use blindsum_net::Credentials;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::Pki;

pub struct Intermediate {
    /// Its own certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
    ca: String,
}

impl Intermediate {
    pub fn of(pki: &Pki) -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "an intermediate CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let own: Certificate = params.signed_by(&key, &pki.issuer()).unwrap();
        Self {
            pem: own.pem(),
            issuer: Issuer::new(params, key),
            ca: pki.ca_pem().to_owned(),
        }
    }

    /// A certificate for a name or address, followed by that of the intermediate CA.
    fn issue(&self, name: &str, usages: &[ExtendedKeyUsagePurpose]) -> Credentials {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = format!("{}{}", certificate.pem(), self.pem);
        Credentials::new(chain, key.serialize_pem(), self.ca.clone())
    }

    pub fn party(&self, name: &str) -> Credentials {
        self.issue(name, &[ExtendedKeyUsagePurpose::ClientAuth])
    }

    pub fn server(&self, host: &str) -> Credentials {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        self.issue(host, &[ClientAuth, ServerAuth])
    }

    pub fn coordinator(&self) -> Credentials {
        self.issue("localhost", &[ExtendedKeyUsagePurpose::ServerAuth])
    }
}
