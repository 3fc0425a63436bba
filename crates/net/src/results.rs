//! The results that a server learns, as files of a folder that NumPy reads.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use blindsum_job::results::{LearntResult, Results};
use blindsum_protocol::Job;

use crate::{NetError, private};

/// The results of one job: for round 12 the mean in `JOB-000012.npy`, float64, of integers the exact sums in
/// `JOB-000012-sums.npy`, uint64, and metrics in `JOB-000012-metrics.json`.
pub(crate) struct ResultFiles {
    folder: PathBuf,
    job: String,
}

impl ResultFiles {
    /// Whether a coordinator of this job may have such a folder, and has one if it must.
    ///
    /// # Errors
    /// A folder where the coordinator learns nothing; none where nobody else keeps what it learns.
    pub fn check(folder: Option<&Path>, job: &Job) -> Result<(), NetError> {
        let (spec, name) = (job.spec(), &job.spec().job);
        let rule = match folder {
            Some(folder) if folder.as_os_str().is_empty() => {
                "must be a folder, not an empty name".into()
            }
            Some(_) if job.hides_sum() => {
                format!("only the parties of job {name:?} learn its results: leave it out")
            }
            None if !job.tells_parties() => format!(
                "job {name:?} has result = servers, and only servers can store its results: name a folder for results"
            ),
            Some(_)
                if spec.encoding.integer_bits().is_some() && !job.encoding().sums_fit_64_bits() =>
            {
                format!(
                    "the sums of job {name:?} have more than 64 bits: choose fewer bits, or leave it out"
                )
            }
            _ => return Ok(()),
        };
        Err(NetError::config("results", rule))
    }

    /// Opens or makes the folder, if one was given, for the results that a server of this job learns.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn open(folder: Option<&Path>, job: &Job) -> Result<Option<Arc<dyn Results>>, NetError> {
        let Some(folder) = folder else {
            return Ok(None);
        };
        let files = Self {
            folder: folder.to_owned(),
            job: job.spec().job.clone(),
        };
        files.try_out().map_err(|error| {
            let rule = format!("{} cannot be written: {error}", folder.display());
            NetError::config("results", rule)
        })?;
        Ok(Some(Arc::new(files)))
    }

    /// Whether a file can be made there.
    fn try_out(&self) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        let path = self.folder.join(format!("{}.new", self.job));
        private::create(&path)?;
        fs::remove_file(path)
    }

    /// Writes these pieces to a file that is not there yet.
    fn write(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        let path = self.folder.join(name);
        if path.exists() {
            return Err(io::Error::other(format!(
                "{name} exists already, and no result is overwritten: use a separate folder for each server, \
                 and for a job that starts over"
            )));
        }
        let new = self.folder.join(format!("{name}.{}.new", process::id()));
        let written = write_all(&new, pieces);
        let written = written.and_then(|()| fs::rename(&new, &path));
        let written = written.and_then(|()| File::open(&self.folder)?.sync_all());
        if written.is_err() {
            // They may never have been made; the first error counts. The result is written once more.
            let _ = fs::remove_file(&new);
            let _ = fs::remove_file(&path);
        }
        written
    }
}

impl Results for ResultFiles {
    fn place(&self) -> &Path {
        &self.folder
    }

    fn keep(&self, round: u64, result: &LearntResult) -> io::Result<()> {
        let name = format!("{}-{round:06}", self.job);
        let array = |kind: &str, values: Vec<u8>| [npy_header(kind, values.len() / 8), values];
        // The mean comes last: where it is, the others are too.
        let mut files = Vec::new();
        if let Some(sums) = &result.sums {
            let wide = || io::Error::other("a sum has more than 64 bits");
            let sums = sums.iter().map(|sum| u64::try_from(*sum).ok());
            let sums: Vec<_> = sums.collect::<Option<_>>().ok_or_else(wide)?;
            let bytes = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            files.push((format!("{name}-sums.npy"), array("<u8", bytes)));
        }
        if !result.metrics.is_empty() {
            let metrics = serde_json::to_vec(&result.metrics)?;
            files.push((format!("{name}-metrics.json"), [metrics, b"\n".to_vec()]));
        }
        let mean = result.mean.iter().flat_map(|x| x.to_le_bytes()).collect();
        files.push((format!("{name}.npy"), array("<f8", mean)));
        for (written, (file, pieces)) in files.iter().enumerate() {
            let pieces = pieces.each_ref().map(Vec::as_slice);
            if let Err(error) = self.write(file, &pieces) {
                // Those that were written just now.
                for (file, _) in files.iter().take(written) {
                    let _ = fs::remove_file(self.folder.join(file));
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Makes a file of these pieces.
fn write_all(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let mut file = private::create(path)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    file.sync_all()
}

/// The head of a `.npy` file, version 1.0, with an array of one dimension. The data behind it is aligned to 64 bytes.
fn npy_header(kind: &str, count: usize) -> Vec<u8> {
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}");
    // The magic number, the version, the length of the text, and the line feed at its end.
    let padding = (64 - (10 + text.len() + 1) % 64) % 64;
    let length = (text.len() + padding + 1) as u16;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(length.to_le_bytes());
    header.extend(text.bytes());
    header.resize(header.len() + padding, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use blindsum_protocol::{JobSpec, Mpc3, ResultName};

    use super::*;
    use crate::report::MetricReport;

    #[test]
    fn results_are_arrays_of_numpy() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobSpec::default().validate().unwrap();
        let place = folder.path().join("made/by it");
        let results = ResultFiles::open(Some(&place), &job).unwrap().unwrap();
        let result = LearntResult {
            mean: vec![0.5, -1.0],
            sums: Some(vec![3, u128::from(u64::MAX)]),
            metrics: BTreeMap::from([(
                "loss".to_owned(),
                MetricReport {
                    value: Some(0.25),
                    share: 1.0,
                    void: false,
                },
            )]),
        };
        results.keep(12, &result).unwrap();
        let name = |end: &str| place.join(format!("{}-000012{end}.npy", job.spec().job));
        let (mean, sums) = (
            fs::read(name("")).unwrap(),
            fs::read(name("-sums")).unwrap(),
        );
        let metrics = place.join(format!("{}-000012-metrics.json", job.spec().job));
        let metrics = fs::read_to_string(metrics).unwrap();
        assert_eq!(metrics, "{\"loss\":{\"value\":0.25,\"share\":1.0}}\n");
        assert_eq!((mean.len(), sums.len()), (128 + 16, 128 + 16));
        assert!(mean.starts_with(
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
        ));
        assert_eq!(mean[127], b'\n');
        assert_eq!(mean[128..136], 0.5f64.to_le_bytes());
        assert_eq!(sums[136..], u64::MAX.to_le_bytes());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 3);
        // Another run of the job, or another server with the same folder.
        let again = results.keep(12, &result).unwrap_err().to_string();
        assert!(again.contains("exists already"), "{again}");
        assert_eq!(fs::read(name("")).unwrap(), mean);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 3);
        // Nothing is left of what cannot be written whole: it can be written later.
        let way = place.join(format!("{}-000013.npy", job.spec().job));
        fs::create_dir(&way).unwrap();
        assert!(results.keep(13, &result).is_err());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 4);
        fs::remove_dir(&way).unwrap();
        results.keep(13, &result).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 6);
    }

    #[test]
    fn sums_that_are_too_wide_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobSpec::default().validate().unwrap();
        let results = ResultFiles::open(Some(folder.path()), &job)
            .unwrap()
            .unwrap();
        let result = LearntResult {
            mean: vec![0.0],
            sums: Some(vec![1 << 64]),
            metrics: BTreeMap::new(),
        };
        assert!(results.keep(1, &result).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_that_cannot_be_used_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = JobSpec {
            protocol: Mpc3 {
                result: ResultName::Parties,
                ..Mpc3::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let refused = ResultFiles::check(Some(folder.path()), &hidden.validate().unwrap());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("only the parties"), "{refused}");
        let job = JobSpec::default().validate().unwrap();
        assert!(ResultFiles::check(None, &job).is_ok());
        assert!(ResultFiles::check(Some(Path::new("")), &job).is_err());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = ResultFiles::open(Some(&file), &job).err().unwrap();
        assert!(
            refused.to_string().contains("cannot be written"),
            "{refused}"
        );
    }
}
