//! The store of many meshes: a directory with one Parquet file a mesh, a row for every bucket of a visit's histogram.
//!
//! ```text
//!   mesh           STRING     id of the mesh, also the file's name
//!   started        TIMESTAMP  when it began, UTC, to the microsecond
//!   path           STRING     path spec in canonical form
//!   a, b           STRING     hosts of the lower and the higher rank
//!   client         STRING     the one of them that was the client
//!   visit          UINT32     the pair's visit, from 1
//!   request_bytes  INT64      payload of a request
//!   reply_bytes    INT64      payload of a reply
//!   upper_ns       INT64      upper edge of the bucket, as in HDR histograms of three digits
//!   n              INT64      round trips in it
//! ```
//! Rows of a visit follow each other, so texts take next to nothing. Adding rows of equal `upper_ns` merges histograms exactly;
//! quantiles of visits are never averaged. docs/mesh-store.md has questions in SQL.
//!
//! A file has a hidden name until it is whole and on the disk, so a full disk, a kill or a crash leaves no half file among the
//! others.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hairpin_record::histogram::Decoded;
use hairpin_record::mesh::Mesh;
use hairpin_session::time::parsed;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use tempfile::NamedTempFile;

/// The schema's name in a file's metadata, under `hairpin.schema`.
pub const SCHEMA: &str = "hairpin.mesh-buckets/1";

/// Rows per row group, and the most that are held in memory (about 15 MiB).
pub const GROUP: usize = 1 << 16;

const COLUMNS: &str = "message bucket {
    required binary mesh (STRING);
    required int64 started (TIMESTAMP(MICROS,true));
    required binary path (STRING);
    required binary a (STRING);
    required binary b (STRING);
    required binary client (STRING);
    required int32 visit (INTEGER(32,false));
    required int64 request_bytes;
    required int64 reply_bytes;
    required int64 upper_ns;
    required int64 n;
}";

/// The number of columns with texts, and of those with numbers of 64 bits.
const TEXTS: usize = 5;
const NUMBERS: usize = 5;

/// The longest id of a mesh, in bytes.
const LONGEST_ID: usize = 200;

/// Why a mesh was not stored. The directory has no file of it then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The id cannot be a file's name.
    #[error("{id:?} cannot be the id of a stored mesh: use up to {LONGEST_ID} letters, digits, '-', '_' and '.', not '.' first")]
    Id { id: String },
    /// No file can be made in the directory.
    #[error("cannot store the mesh in {}: {source}; name a directory that is there and that you may write", dir.display())]
    Create {
        dir: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot store the mesh in {}: {source}; free some space: nothing of it was kept there", dir.display())]
    Write { dir: PathBuf, source: ParquetError },
    /// The mesh is there already.
    #[error("{} is there already: a mesh is stored once; choose another directory or id", path.display())]
    There { path: PathBuf },
    /// The whole file cannot get its name.
    #[error("cannot give {} its name: {source}; nothing of the mesh was kept there", path.display())]
    Rename {
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// One visit of a pair, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVisit {
    /// The path spec in canonical form.
    pub path: String,
    /// The host of the lower rank.
    pub a: String,
    /// The host of the higher rank.
    pub b: String,
    /// The host that was the client.
    pub client: String,
    /// Its number, from 1.
    pub visit: u32,
    /// Payload of a request in bytes.
    pub request_bytes: u64,
    /// Payload of a reply in bytes.
    pub reply_bytes: u64,
    /// Upper edges in ns and the times in each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// Writes one mesh. Dropped before [`MeshWriter::finish`], it leaves nothing.
pub struct MeshWriter {
    dir: PathBuf,
    path: PathBuf,
    mesh: ByteArray,
    started: i64,
    writer: SerializedFileWriter<File>,
    /// The file under its hidden name, removed when it is dropped.
    hidden: NamedTempFile,
    waiting: Columns,
}

/// Rows column by column, as Parquet wants them.
#[derive(Default)]
struct Columns {
    texts: [Vec<ByteArray>; TEXTS],
    visits: Vec<i32>,
    numbers: [Vec<i64>; NUMBERS],
}

/// Stores all measured visits of a mesh in an existing directory, and gives the file's name.
///
/// # Errors
/// The mesh is there already, or the directory cannot be written.
pub fn store(dir: &Path, record: &Mesh) -> Result<PathBuf, StoreError> {
    let started = parsed(&record.head.started).unwrap_or(UNIX_EPOCH);
    let mut writer = MeshWriter::create(dir, &record.id, started)?;
    for pair in &record.pairs {
        for visit in pair.measured() {
            // The record's histograms were decoded when it was made.
            let Ok(times) = Decoded::decode(&visit.histogram) else { continue };
            writer.add(&StoredVisit {
                path: record.path.clone(),
                a: record.host_of(pair.a),
                b: record.host_of(pair.b),
                client: record.host_of(visit.client),
                visit: visit.visit,
                request_bytes: record.request_bytes,
                reply_bytes: record.reply_bytes,
                buckets: times.buckets().collect(),
            })?;
        }
    }
    writer.finish()
}

/// Tells before a mesh is measured whether it can be stored in the directory.
///
/// # Errors
/// No file can be made there.
pub fn check(dir: &Path) -> Result<(), StoreError> {
    hidden_file(dir).map(drop)
}

fn hidden_file(dir: &Path) -> Result<NamedTempFile, StoreError> {
    // The umask applies.
    let mode = Permissions::from_mode(0o666);
    let made = tempfile::Builder::new().prefix(".hairpin-").permissions(mode).tempfile_in(dir);
    made.map_err(|source| StoreError::Create { dir: dir.into(), source })
}

impl MeshWriter {
    /// Begins the file of the mesh `id`, which began at `started`, in an existing directory.
    ///
    /// # Errors
    /// The id is no file name, the mesh is there already, or the directory cannot be written.
    pub fn create(dir: &Path, id: &str, started: SystemTime) -> Result<MeshWriter, StoreError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_empty() || id.len() > LONGEST_ID || id.starts_with('.') || !id.bytes().all(is_plain) {
            return Err(StoreError::Id { id: id.to_owned() });
        }
        let path = dir.join(format!("{id}.parquet"));
        if path.exists() {
            return Err(StoreError::There { path });
        }
        let hidden = hidden_file(dir)?;
        let file = hidden.as_file().try_clone().map_err(|source| StoreError::Create { dir: dir.into(), source })?;
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new("hairpin.schema".into(), SCHEMA.to_owned())]))
            // Edges rise within a visit, so their differences are small.
            .set_column_dictionary_enabled(ColumnPath::from("upper_ns"), false)
            .set_column_encoding(ColumnPath::from("upper_ns"), Encoding::DELTA_BINARY_PACKED);
        let failed = |source| StoreError::Write { dir: dir.into(), source };
        let columns = Arc::new(parse_message_type(COLUMNS).map_err(failed)?);
        let writer = SerializedFileWriter::new(file, columns, Arc::new(properties.build())).map_err(failed)?;
        let since = started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let started = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Ok(MeshWriter { dir: dir.into(), path, mesh: ByteArray::from(id), started, writer, hidden, waiting: Columns::default() })
    }

    /// Adds a visit.
    ///
    /// # Errors
    /// The file cannot be written, as on a full disk.
    pub fn add(&mut self, visit: &StoredVisit) -> Result<(), StoreError> {
        let text = |text: &str| ByteArray::from(text);
        let texts = [self.mesh.clone(), text(&visit.path), text(&visit.a), text(&visit.b), text(&visit.client)];
        // Parquet has signed numbers; times reach the sign bit in 292 years.
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let bytes = [visit.request_bytes, visit.reply_bytes].map(number);
        let mut rest = visit.buckets.as_slice();
        while !rest.is_empty() {
            let waiting = &mut self.waiting;
            let (now, later) = rest.split_at(rest.len().min(GROUP - waiting.len()));
            let length = waiting.len() + now.len();
            waiting.texts.iter_mut().zip(&texts).for_each(|(column, text)| column.resize(length, text.clone()));
            waiting.visits.resize(length, visit.visit.cast_signed());
            let [started, request, reply, upper, n] = &mut waiting.numbers;
            started.resize(length, self.started);
            request.resize(length, bytes[0]);
            reply.resize(length, bytes[1]);
            upper.extend(now.iter().map(|(upper, _)| number(*upper)));
            n.extend(now.iter().map(|(_, n)| number(*n)));
            rest = later;
            if length == GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Writes the last rows, syncs the file and gives it its name, which is returned.
    ///
    /// # Errors
    /// The file cannot be written, or one of its name was made meanwhile.
    pub fn finish(mut self) -> Result<PathBuf, StoreError> {
        if self.waiting.len() > 0 {
            self.write_group()?;
        }
        let MeshWriter { dir, path, writer, hidden, .. } = self;
        let whole = writer.into_inner().and_then(|file| file.sync_all().map_err(ParquetError::from));
        whole.map_err(|source| StoreError::Write { dir: dir.clone(), source })?;
        match hidden.persist_noclobber(&path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::There { path }),
            Err(error) => return Err(StoreError::Rename { path, source: error.error }),
        }
        // The name is on the disk too.
        match File::open(&dir).and_then(|dir| dir.sync_all()) {
            Ok(()) => Ok(path),
            Err(source) => {
                let _ = fs::remove_file(&path);
                Err(StoreError::Rename { path, source })
            }
        }
    }

    fn write_group(&mut self) -> Result<(), StoreError> {
        let MeshWriter { dir, writer, waiting, .. } = self;
        waiting.write(writer).map_err(|source| StoreError::Write { dir: dir.clone(), source })
    }
}

impl Columns {
    fn len(&self) -> usize {
        self.visits.len()
    }

    /// Writes one row group and clears the columns.
    fn write(&mut self, writer: &mut SerializedFileWriter<File>) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        let (mut texts, mut numbers) = (self.texts.iter(), self.numbers.iter());
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::ByteArrayColumnWriter(out) => {
                    out.write_batch(texts.next().map_or(&[], Vec::as_slice), None, None)?
                }
                ColumnWriter::Int64ColumnWriter(out) => out.write_batch(numbers.next().map_or(&[], Vec::as_slice), None, None)?,
                ColumnWriter::Int32ColumnWriter(out) => out.write_batch(&self.visits, None, None)?,
                _ => return Err(unexpected()),
            };
            column.close()?;
        }
        group.close()?;
        self.texts.iter_mut().for_each(Vec::clear);
        self.numbers.iter_mut().for_each(Vec::clear);
        self.visits.clear();
        Ok(())
    }
}

fn unexpected() -> ParquetError {
    ParquetError::General(format!("the columns are not those of {SCHEMA}"))
}

#[cfg(test)]
mod read;
#[cfg(test)]
mod tests;
