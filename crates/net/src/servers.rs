//! The servers of jobs whose servers compute together: where they are, and which of them a certificate is of.

use std::time::Duration;

use blindsum_protocol::{ServerIndex, ServerRole};

use crate::NetError;
use crate::address::Address;
use crate::connect::Target;
use crate::tls::ServerSide;

/// The servers of jobs, in order: the first is the coordinator. Three compute together; the second of two makes keys and
/// opens sums.
#[derive(Debug)]
pub(crate) struct Servers {
    coordinator: Address,
    others: Vec<Address>,
}

impl Servers {
    /// Reads their URLs.
    ///
    /// # Errors
    /// They are not two or three, or two have one host: a certificate would be that of two servers.
    pub fn new(urls: &[String]) -> Result<Self, NetError> {
        let wrong = |rule: String| NetError::config("servers", rule);
        let addresses = urls.iter().map(|url| Address::parse("servers", url));
        let mut addresses: Vec<Address> = addresses.collect::<Result<_, _>>()?;
        if !(2..=3).contains(&addresses.len()) {
            let rule = "must be three, in order, or two: the coordinator and the decryptor";
            return Err(wrong(format!("{} URLs: {rule}", addresses.len())));
        }
        for (place, one) in addresses.iter().enumerate() {
            if let Some(other) = addresses
                .iter()
                .skip(place + 1)
                .find(|it| it.host == one.host)
            {
                return Err(wrong(format!(
                    "{:?} and {:?} have the same host, but servers are identified by the hosts of their \
                     certificates: give each server a host of its own",
                    one.url, other.url
                )));
            }
        }
        let others = addresses.split_off(1);
        let coordinator = addresses.swap_remove(0);
        Ok(Self {
            coordinator,
            others,
        })
    }

    /// The address of a server; that of the coordinator for a place that the list does not have.
    pub fn address(&self, place: ServerIndex) -> &Address {
        let other = usize::from(place.number()).checked_sub(1);
        let other = other.and_then(|at| self.others.get(at));
        other.unwrap_or(&self.coordinator)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The role of the server in this place; `None` for the coordinator.
    pub fn role(&self, place: ServerIndex) -> Option<ServerRole> {
        match (ServerRole::at(place), self.count()) {
            (Some(ServerRole::Second), 2) => Some(ServerRole::Decryptor),
            (role, _) => role,
        }
    }

    /// The server whose certificate is for these hosts.
    ///
    /// # Errors
    /// It is of none of them, or of more than one; in words.
    pub fn place_of(&self, hosts: &[String]) -> Result<ServerIndex, String> {
        let is_of = |place: &ServerIndex| {
            let address = self.address(*place);
            hosts.iter().any(|host| address.is_for(host))
        };
        let mut places = ServerIndex::ALL
            .into_iter()
            .take(self.count())
            .filter(is_of);
        match (places.next(), places.next()) {
            // guard: servers-are-told-by-their-host
            (Some(place), None) => Ok(place),
            (None, _) => Err(format!(
                "the certificate is for {hosts:?}, and none of these is the host of a server"
            )),
            (Some(_), Some(_)) => Err(format!(
                "the certificate is for {hosts:?}, which are the hosts of more than one server"
            )),
        }
    }

    /// Whether the own certificate is for the host of the own place.
    ///
    /// # Errors
    /// It is not; the field names the list.
    pub fn check_own(&self, place: ServerIndex, hosts: &[String]) -> Result<(), NetError> {
        let of = self.place_of(hosts);
        if of == Ok(place) {
            return Ok(());
        }
        let why = of.err().map_or(String::new(), |why| format!(": {why}"));
        let url = &self.address(place).url;
        let rule = format!(
            "{url:?} is {place}, this one, and its certificate must be for that host alone{why}"
        );
        Err(NetError::config("servers", rule))
    }

    /// The server in this place, for another one of them to dial.
    pub fn target(
        &self,
        place: ServerIndex,
        side: &ServerSide,
        keepalive: Duration,
    ) -> Result<Target, NetError> {
        let address = self.address(place).clone();
        match ServerRole::at(place) {
            None => Target::coordinator(address, None, side.to_coordinator.clone(), keepalive),
            Some(_) => Target::server(address, side.to_servers.clone(), keepalive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(urls: [&str; 3]) -> Result<Servers, NetError> {
        Servers::new(&urls.map(str::to_owned))
    }

    fn rule(refused: Result<Servers, NetError>) -> String {
        match refused {
            Err(NetError::Config { field, rule }) if field == "servers" => rule,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn servers_are_three_on_different_hosts() {
        let good = [
            "https://a.example",
            "https://b.example:1",
            "https://[::1]:2",
        ];
        assert!(servers(good).is_ok());
        assert!(Servers::new(&good.map(str::to_owned)[..2]).is_ok());
        assert!(rule(Servers::new(&good.map(str::to_owned)[..1])).contains("1 URLs"));
        let twice = [
            "https://a.example:1",
            "https://b.example",
            "https://A.example:2",
        ];
        assert!(rule(servers(twice)).contains("have the same host"));
        let twice = [
            "https://a.example:1",
            "https://[::1]:1",
            "https://[0:0::1]:2",
        ];
        assert!(rule(servers(twice)).contains("have the same host"));
        let clear = ["https://a.example", "http://b.example", "https://c.example"];
        assert!(rule(servers(clear)).contains("https://"));
    }

    #[test]
    fn case_32_a_certificate_is_that_of_one_server_or_of_none() {
        let servers = servers(["https://a.example", "https://b.example", "https://10.0.0.3"]);
        let servers = servers.unwrap();
        let place = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
            servers.place_of(&hosts)
        };
        let [_, second, third] = ServerIndex::ALL;
        assert_eq!(place(&["other.example", "B.example"]), Ok(second));
        assert_eq!(place(&["10.0.0.3"]), Ok(third));
        assert!(place(&["c.example"]).unwrap_err().contains("none of these"));
        assert!(place(&[]).unwrap_err().contains("none of these"));
        let both = place(&["b.example", "10.0.0.3"]).unwrap_err();
        assert!(both.contains("more than one server"), "{both}");
        let own = servers
            .check_own(second, &["a.example".into()])
            .unwrap_err();
        assert!(own.to_string().contains("server 1, this one"), "{own}");
    }
}
