//! The model that a job begins with, from a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use blindsum_encode::{Precision, Reals};

use crate::NetError;

/// The most bytes that a `.npy` file has before its data.
const MAX_HEADER: u64 = 1 << 16;

/// Reads a vector of `dim` values: NumPy's `.npy` of little-endian f4 or f8 in C order, or else raw little-endian f32.
/// A file that is too long for that is refused, and not read.
pub(super) fn read_model(path: &Path, dim: u64) -> Result<Reals, NetError> {
    let wrong =
        |rule: String| NetError::config("initial_model", format!("{}: {rule}", path.display()));
    let most = dim.saturating_mul(8).saturating_add(MAX_HEADER);
    let bytes = read_file(path, most).map_err(|e| wrong(e.to_string()))?;
    let values = match bytes.strip_prefix(b"\x93NUMPY") {
        Some(rest) => read_npy(rest).map_err(|rule| wrong(rule.into()))?,
        None => singles(&bytes).map_err(|rule| wrong(rule.into()))?,
    };
    Ok(values)
}

/// The bytes of a file that has at most so many.
fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_long = |length: u64| {
        let rule = format!(
            "has {length} bytes or more, but a model of this job has at most {most}: is it another job's model?"
        );
        Err(io::Error::other(rule))
    };
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return too_long(length);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize)?;
    // What is no file of a disk has no length beforehand.
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => too_long(bytes.len() as u64),
        false => Ok(bytes),
    }
}

fn read_npy(rest: &[u8]) -> Result<Reals, &'static str> {
    const CUT: &str = "the .npy file is cut short";
    let (version, rest) = rest.split_first_chunk::<2>().ok_or(CUT)?;
    let (length, rest) = match version {
        [1, _] => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or(CUT)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, _] => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        _ => return Err("this version of .npy is not read: save it with numpy.save"),
    };
    let (header, data) = rest.split_at_checked(length).ok_or(CUT)?;
    let header: String = String::from_utf8_lossy(header)
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    if header.contains("'fortran_order':True") {
        return Err("must be in C order: use numpy.ascontiguousarray");
    }
    if header.contains("'descr':'<f4'") {
        return singles(data);
    }
    if header.contains("'descr':'<f8'") {
        return Reals::from_bytes(Precision::Double, data).ok_or(CUT);
    }
    Err("must hold float32 or float64, little-endian")
}

fn singles(bytes: &[u8]) -> Result<Reals, &'static str> {
    const RULE: &str = "must be .npy, or raw little-endian f32: its length is no multiple of 4";
    Reals::from_bytes(Precision::Single, bytes).ok_or(RULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_read_from_npy_and_raw_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let raw: Vec<u8> = [1.5f32, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        std::fs::write(&path, &raw).unwrap();
        assert_eq!(
            read_model(&path, 2).unwrap(),
            Reals::from(vec![1.5_f32, -2.0])
        );
        let npy = |descr: &str, order: &str, data: &[u8]| {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2,)}}\n");
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend((header.len() as u16).to_le_bytes());
            bytes.extend(header.as_bytes());
            bytes.extend(data);
            std::fs::write(&path, bytes).unwrap();
            read_model(&path, 2)
        };
        assert_eq!(
            npy("<f4", "False", &raw).unwrap(),
            Reals::from(vec![1.5_f32, -2.0])
        );
        let wide: Vec<u8> = [1.5f64, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        assert_eq!(
            npy("<f8", "False", &wide).unwrap(),
            Reals::from(vec![1.5, -2.0])
        );
        assert!(npy("<f4", "True", &raw).is_err());
        assert!(npy("<i4", "False", &raw).is_err());
        assert!(npy("<f8", "False", &wide[1..]).is_err());
    }

    #[test]
    fn files_that_no_model_of_the_job_has_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let file = File::create(&path).unwrap();
        // A hole: nothing of it is on the disk.
        file.set_len(1 << 40).unwrap();
        let refused = read_model(&path, 1000).unwrap_err().to_string();
        assert!(
            refused.contains("model") && refused.contains(&(1u64 << 40).to_string()),
            "{refused}"
        );
        file.set_len(4000).unwrap();
        assert_eq!(read_model(&path, 1000).unwrap().len(), 1000);
        // A file without a length ends there too.
        let endless = read_model(Path::new("/dev/zero"), 1000).unwrap_err();
        assert!(endless.to_string().contains("at most"), "{endless}");
    }
}
