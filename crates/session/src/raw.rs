//! Every sample of a run as a Parquet file, for `--raw FILE`: schema `hairpin.raw/1`.
//!
//! ```text
//!   at_ns     INT64    send call entered, since the start of measuring
//!   due_ns    INT64    when the request was due; equal to at_ns unless the run was paced
//!   rtt_ns    INT64    send call entered → reply in the caller's buffer
//!   sequence  UINT32   the request's sequence number
//!   flow      UINT32   its flow
//!   thread    UINT32   the measuring thread
//!   row       UINT32   index into the rows that the file's metadata names
//! ```
//! The metadata `hairpin.schema` and `hairpin.rows` (JSON) describe the rows. Samples are written in groups of [`GROUP`], so
//! memory is constant except for the file's index, a few kB per group; the file is called FILE`.partial` until it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hairpin_record::recorder::Sample;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

/// The schema's name in the file's metadata.
pub const SCHEMA: &str = "hairpin.raw/1";

/// Samples per row group, and the most that are held in memory (10 MiB).
pub const GROUP: usize = 1 << 18;
/// Most row groups of a Parquet file: their numbers have 15 bits.
const MOST_GROUPS: usize = 1 << 15;

const COLUMNS: &str = "message sample {
    required int64 at_ns;
    required int64 due_ns;
    required int64 rtt_ns;
    required int32 sequence (INTEGER(32,false));
    required int32 flow (INTEGER(32,false));
    required int32 thread (INTEGER(32,false));
    required int32 row (INTEGER(32,false));
}";

/// A row of the run as the file's metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RawRow {
    /// The path spec in canonical form.
    pub path: String,
    /// Payload of a request in bytes.
    pub request_bytes: u64,
    /// Payload of a reply in bytes; left out where the end of a reply is no number of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_bytes: Option<u64>,
}

/// Why samples were not written.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The file cannot be created.
    #[error("cannot make {} for --raw: {source}; name a file in a directory that you may write", path.display())]
    Create {
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another run writes the file.
    #[error("another run writes {} now; give --raw another name", path.display())]
    Busy { path: PathBuf },
    /// The file cannot be written.
    #[error("cannot write samples to {}: {source}; the Parquet file is incomplete: free some space and run again", path.display())]
    Write {
        /// The file, still partial.
        path: PathBuf,
        source: ParquetError,
    },
    /// The file takes no more samples.
    #[error("{} has as many samples as a Parquet file takes, {samples}: use a shorter --duration, or a lower rate", path.display())]
    Full {
        /// The file, whole once it is finished.
        path: PathBuf,
        /// Number of its samples.
        samples: usize,
    },
    /// The complete file cannot be renamed.
    #[error("cannot rename {} to {}: {source}; rename it by hand, it is whole", partial.display(), path.display())]
    Rename {
        /// The current name of the file.
        partial: PathBuf,
        /// The intended name of the file.
        path: PathBuf,
        source: io::Error,
    },
}

/// The name of a file of samples until it is complete.
pub fn partial(path: &Path) -> PathBuf {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    partial.into()
}

/// Writes samples to a file that gets its name in [`RawWriter::finish`]; if dropped before, it stays `.partial`.
pub struct RawWriter {
    path: PathBuf,
    partial: PathBuf,
    writer: SerializedFileWriter<File>,
    waiting: Columns,
    /// Samples of a group.
    group: usize,
    /// The file has at most this many groups.
    most_groups: usize,
}

/// Samples of the current group, column by column as Parquet wants them.
struct Columns {
    times: [Vec<i64>; 3],
    numbers: [Vec<i32>; 4],
}

impl RawWriter {
    /// Creates the file and allocates all memory that samples are held in. Only [`RawWriter::finish`] replaces an existing file
    /// called `path`.
    pub fn create(path: &Path, rows: &[RawRow]) -> Result<RawWriter, RawError> {
        RawWriter::sized(path, rows, GROUP, MOST_GROUPS)
    }

    /// As [`RawWriter::create`], with at most `most_groups` groups of `group` samples.
    fn sized(path: &Path, rows: &[RawRow], group: usize, most_groups: usize) -> Result<RawWriter, RawError> {
        let partial = partial(path);
        let failed = |source| RawError::Write { path: partial.clone(), source };

        let file = locked(&partial)?;
        let rows = serde_json::to_string(rows).map_err(|e| failed(ParquetError::External(e.into())))?;
        let about = [("hairpin.schema", SCHEMA.to_owned()), ("hairpin.rows", rows)];
        // Statistics per page would only grow the index.
        let mut properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(about.map(|(key, value)| KeyValue::new(key.into(), value)).to_vec()));
        // These three columns rise almost steadily, so their differences are small.
        for name in ["at_ns", "due_ns", "sequence"] {
            let column = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        let columns = Arc::new(parse_message_type(COLUMNS).map_err(failed)?);
        let writer = SerializedFileWriter::new(file, columns, Arc::new(properties.build())).map_err(failed)?;
        let waiting = Columns {
            times: std::array::from_fn(|_| Vec::with_capacity(group)),
            numbers: std::array::from_fn(|_| Vec::with_capacity(group)),
        };
        Ok(RawWriter { path: path.into(), partial, writer, waiting, group, most_groups })
    }

    /// Writes the samples of one block of `thread` in the run's row `row`.
    pub fn write_block(&mut self, row: u32, thread: u32, samples: impl Iterator<Item = Sample>) -> Result<(), RawError> {
        for sample in samples {
            if self.waiting.len() == self.group {
                self.write_group()?;
            }
            // Then none waits, and what is written becomes a whole file.
            if self.writer.flushed_row_groups().len() == self.most_groups {
                return Err(RawError::Full { path: self.path.clone(), samples: self.most_groups * self.group });
            }
            // Parquet keeps unsigned numbers in the bits of signed ones; times reach the sign bit in 292 years.
            let times = [sample.sent_ns, sample.due_ns, sample.rtt_ns].map(u64::cast_signed);
            let numbers = [sample.sequence, sample.flow, thread, row].map(u32::cast_signed);
            self.waiting.times.iter_mut().zip(times).for_each(|(column, value)| column.push(value));
            self.waiting.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.push(value));
        }
        Ok(())
    }

    /// Writes the last group, syncs the file and gives it its name.
    pub fn finish(mut self) -> Result<(), RawError> {
        if self.waiting.len() > 0 {
            self.write_group()?;
        }
        let RawWriter { path, partial, writer, .. } = self;
        let whole = writer.into_inner().and_then(|file| file.sync_all().map(|()| file).map_err(ParquetError::from));
        // Locked until it has its name.
        let _file = whole.map_err(|source| RawError::Write { path: partial.clone(), source })?;
        fs::rename(&partial, &path).map_err(|source| RawError::Rename { partial, path, source })
    }

    fn write_group(&mut self) -> Result<(), RawError> {
        let RawWriter { writer, waiting, .. } = self;
        waiting.write(writer).map_err(|source| RawError::Write { path: self.partial.clone(), source })
    }
}

/// Makes the file, or empties what an earlier run left, unless another run has it locked (flock(2)). A file system without locks
/// goes without.
fn locked(path: &Path) -> Result<File, RawError> {
    let failed = |source| RawError::Create { path: path.into(), source };
    loop {
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(RawError::Busy { path: path.into() });
        }
        let facts = file.metadata().map_err(failed)?;
        // Another run may have given the file its name in between.
        if fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (facts.dev(), facts.ino())) {
            // A device or a pipe has no length.
            if facts.is_file() {
                file.set_len(0).map_err(failed)?;
            }
            return Ok(file);
        }
    }
}

impl Columns {
    fn len(&self) -> usize {
        self.times[0].len()
    }

    /// Writes one row group and clears the columns.
    fn write(&mut self, writer: &mut SerializedFileWriter<File>) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        let (mut times, mut numbers) = (self.times.iter(), self.numbers.iter());
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(out) => out.write_batch(times.next().map_or(&[], Vec::as_slice), None, None)?,
                ColumnWriter::Int32ColumnWriter(out) => out.write_batch(numbers.next().map_or(&[], Vec::as_slice), None, None)?,
                _ => return Err(ParquetError::General("the schema has a column that is not an integer".into())),
            };
            column.close()?;
        }
        group.close()?;
        self.times.iter_mut().for_each(Vec::clear);
        self.numbers.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn sample(n: u64) -> Sample {
        Sample {
            due_ns: n * 1000,
            sent_ns: n * 1000 + n % 7,
            rtt_ns: 5000 + n % 911,
            sequence: u32::MAX - n as u32,
            flow: n as u32 % 3,
            stalled: false,
        }
    }

    fn row(path: &str) -> RawRow {
        RawRow { path: path.into(), request_bytes: 64, reply_bytes: Some(128) }
    }

    #[test]
    fn samples_are_read_back_over_several_groups() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        let rows = [row("tcp:block"), RawRow { reply_bytes: None, ..row("tcp:spin") }];
        let mut raw = RawWriter::create(&path, &rows).unwrap();
        let samples = GROUP as u64 + 1000;
        for block in 0..samples.div_ceil(65_536) {
            let end = samples.min((block + 1) * 65_536);
            raw.write_block(u32::from(block > 2), block as u32 % 2, (block * 65_536..end).map(sample)).unwrap();
        }
        assert!(!path.exists());
        raw.finish().unwrap();
        assert!(!dir.path().join("samples.parquet.partial").exists());

        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let about = |key: &str| about.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap();
        assert_eq!(about("hairpin.schema"), SCHEMA);
        assert_eq!(
            about("hairpin.rows"),
            r#"[{"path":"tcp:block","request_bytes":64,"reply_bytes":128},{"path":"tcp:spin","request_bytes":64}]"#
        );
        let mut read = 0;
        for found in reader.get_row_iter(None).unwrap() {
            let (found, block) = (found.unwrap(), read / 65_536);
            let time = |column| found.get_long(column).unwrap() as u64;
            let number = |column| found.get_uint(column).unwrap();
            let (sent_ns, due_ns, rtt_ns) = (time(0), time(1), time(2));
            let got = Sample { sent_ns, due_ns, rtt_ns, sequence: number(3), flow: number(4), stalled: false };
            assert_eq!((got, number(5), number(6)), (sample(read), block as u32 % 2, u32::from(block > 2)));
            read += 1;
        }
        assert_eq!(read, samples);
    }

    #[test]
    fn an_unfinished_file_is_partial_and_an_old_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        fs::write(&path, "old").unwrap();
        let mut raw = RawWriter::create(&path, &[]).unwrap();
        raw.write_block(0, 0, (0..10).map(sample)).unwrap();
        drop(raw);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert!(dir.path().join("samples.parquet.partial").exists());
    }

    #[test]
    fn two_runs_do_not_write_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples.parquet");
        fs::write(dir.path().join("samples.parquet.partial"), "left by a run that was killed").unwrap();
        let mut raw = RawWriter::create(&path, &[]).unwrap();
        raw.write_block(0, 0, (0..10).map(sample)).unwrap();
        let text = RawWriter::create(&path, &[]).err().unwrap().to_string();
        assert!(text.contains("another run writes") && text.contains("samples.parquet.partial"), "{text}");
        raw.finish().unwrap();
        assert_eq!(SerializedFileReader::new(File::open(&path).unwrap()).unwrap().metadata().file_metadata().num_rows(), 10);
        RawWriter::create(&path, &[]).unwrap().finish().unwrap();
    }

    #[test]
    fn a_run_without_samples_is_a_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none.parquet");
        RawWriter::create(&path, &[]).unwrap().finish().unwrap();
        assert_eq!(SerializedFileReader::new(File::open(&path).unwrap()).unwrap().metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn waiting_samples_take_no_more_memory_than_was_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut raw = RawWriter::create(&dir.path().join("a"), &[]).unwrap();
        let before = raw.waiting.times[0].as_ptr();
        raw.write_block(0, 0, (0..GROUP as u64 + 10).map(sample)).unwrap();
        assert_eq!((raw.waiting.times[0].as_ptr(), raw.waiting.times[0].len()), (before, 10));
    }

    #[test]
    fn a_file_with_all_the_groups_that_parquet_takes_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.parquet");
        let mut raw = RawWriter::sized(&path, &[], 2, 4).unwrap();
        raw.write_block(0, 0, (0..8).map(sample)).unwrap();
        for _ in 0..2 {
            let text = raw.write_block(0, 0, (8..12).map(sample)).unwrap_err().to_string();
            assert!(text.contains("full.parquet has as many samples as a Parquet file takes, 8"), "{text}");
        }
        raw.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!((reader.num_row_groups(), reader.metadata().file_metadata().num_rows()), (4, 8));
    }

    #[test]
    fn a_directory_that_is_not_there_and_a_full_disk_are_told() {
        let text = RawWriter::create(Path::new("/nonexistent/a"), &[]).err().unwrap().to_string();
        assert!(text.contains("/nonexistent/a.partial for --raw: No such file"), "{text}");
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join("a.partial")).unwrap();
        let mut raw = RawWriter::create(&dir.path().join("a"), &[]).unwrap();
        let text = raw.write_block(0, 0, (0..GROUP as u64).map(sample)).and_then(|()| raw.finish()).unwrap_err().to_string();
        assert!(text.contains("No space left") && text.contains("free some space"), "{text}");
        assert!(!dir.path().join("a").exists());
    }
}
