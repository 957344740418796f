//! Reads stored meshes back, for the tests; users ask DuckDB.

use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::*;

/// Why a stored mesh was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The file cannot be opened.
    #[error("cannot read {}: {source}; name a file of the store", path.display())]
    Open {
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file is no Parquet file, or is damaged.
    #[error("cannot read {}: {source}; it is no Parquet file, or damaged", path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    /// The file is no stored mesh.
    #[error("{} is no stored mesh: it has no {SCHEMA}", path.display())]
    Schema { path: PathBuf },
}

impl StoredVisit {
    /// The histogram.
    #[must_use]
    pub(super) fn times(&self) -> Decoded {
        Decoded::from_buckets(self.buckets.iter().copied())
    }
}

/// The visits of a stored mesh in their order, one at a time; a row group is in memory.
pub(super) struct Visits {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// The row group in memory, the row to go on with, and the number of the next group.
    group: Columns,
    at: usize,
    next: usize,
}

/// Opens a stored mesh.
///
/// # Errors
/// The file cannot be read, or is no stored mesh.
pub(super) fn visits(path: &Path) -> Result<Visits, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Open { path: path.into(), source })?;
    let reader = SerializedFileReader::new(file).map_err(|source| ReadError::Parquet { path: path.into(), source })?;
    let about = reader.metadata().file_metadata().key_value_metadata();
    let is_schema = |pair: &KeyValue| pair.key == "hairpin.schema" && pair.value.as_deref() == Some(SCHEMA);
    if !about.is_some_and(|about| about.iter().any(is_schema)) {
        return Err(ReadError::Schema { path: path.into() });
    }
    Ok(Visits { path: path.into(), reader, group: Columns::default(), at: 0, next: 0 })
}

impl Visits {
    /// Reads the next row group if there is one.
    fn load(&mut self) -> Result<bool, ParquetError> {
        if self.next == self.reader.num_row_groups() {
            return Ok(false);
        }
        self.group = Columns::read(self.reader.get_row_group(self.next)?.as_ref())?;
        (self.at, self.next) = (0, self.next + 1);
        Ok(true)
    }

    fn visit(&mut self) -> Result<Option<StoredVisit>, ParquetError> {
        while self.at == self.group.len() {
            if !self.load()? {
                return Ok(None);
            }
        }
        let number =
            |value: i64| u64::try_from(value).map_err(|_| ParquetError::General(format!("{value} is no count and no time")));
        let (group, first) = (&self.group, self.at);
        let text = |column: usize| group.texts[column][first].as_utf8().map(str::to_owned);
        let mut visit = StoredVisit {
            path: text(1)?,
            a: text(2)?,
            b: text(3)?,
            client: text(4)?,
            visit: group.visits[first].cast_unsigned(),
            request_bytes: number(group.numbers[1][first])?,
            reply_bytes: number(group.numbers[2][first])?,
            buckets: Vec::new(),
        };
        // A visit may go on in the next group.
        let mut key = Columns::default();
        key.texts.iter_mut().zip(&group.texts).for_each(|(key, texts)| key.push(texts[first].clone()));
        key.numbers.iter_mut().zip(&group.numbers).for_each(|(key, numbers)| key.push(numbers[first]));
        key.visits.push(group.visits[first]);
        loop {
            while self.at < self.group.len() && self.group.is_same(self.at, &key, 0) {
                let [.., upper, n] = &self.group.numbers;
                visit.buckets.push((number(upper[self.at])?, number(n[self.at])?));
                self.at += 1;
            }
            if self.at < self.group.len() || !self.load()? {
                return Ok(Some(visit));
            }
        }
    }
}

impl Iterator for Visits {
    type Item = Result<StoredVisit, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let visit = self.visit();
        if visit.is_err() {
            // Nothing after it can be trusted.
            (self.group, self.at, self.next) = (Columns::default(), 0, self.reader.num_row_groups());
        }
        visit.map_err(|source| ReadError::Parquet { path: self.path.clone(), source }).transpose()
    }
}

impl Columns {
    fn read(group: &dyn RowGroupReader) -> Result<Columns, ParquetError> {
        let rows = usize::try_from(group.metadata().num_rows()).map_err(|_| unexpected())?;
        let mut columns = Columns::default();
        let (mut texts, mut numbers) = (columns.texts.iter_mut(), columns.numbers.iter_mut());
        for at in 0..group.num_columns() {
            let (read, _, _) = match group.get_column_reader(at)? {
                ColumnReader::ByteArrayColumnReader(mut from) => {
                    from.read_records(rows, None, None, texts.next().ok_or_else(unexpected)?)?
                }
                ColumnReader::Int64ColumnReader(mut from) => {
                    from.read_records(rows, None, None, numbers.next().ok_or_else(unexpected)?)?
                }
                ColumnReader::Int32ColumnReader(mut from) => from.read_records(rows, None, None, &mut columns.visits)?,
                _ => return Err(unexpected()),
            };
            if read != rows {
                return Err(ParquetError::General(format!("column {at} has {read} of {rows} rows")));
            }
        }
        if texts.next().is_some() || numbers.next().is_some() || columns.visits.len() != rows {
            Err(unexpected())
        } else {
            Ok(columns)
        }
    }

    /// Whether two rows are of one visit.
    fn is_same(&self, at: usize, other: &Columns, there: usize) -> bool {
        self.visits[at] == other.visits[there]
            && self.texts.iter().zip(&other.texts).all(|(own, other)| own[at] == other[there])
            && self.numbers[..3].iter().zip(&other.numbers[..3]).all(|(own, other)| own[at] == other[there])
    }
}
