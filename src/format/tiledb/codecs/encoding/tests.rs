use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::codecs::{Codecs, Encoder, EncryptionKey, Steps};
use crate::format::tiledb::fault::Decoded;
use crate::format::tiledb::schema::{Datatype, Filter, Pipeline, Representation};

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005);
        self.0 = self.0.wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn filter(&mut self, datatype: Datatype) -> Filter {
        let max_window = [1, 20, 256, 1024][self.below(4) as usize];
        let reinterpret = match datatype.representation() {
            Representation::Float => Some(Datatype::Uint32),
            _ => None,
        };
        match self.below(16) {
            0 => Filter::Noop,
            1 => Filter::Gzip { level: 6 },
            2 => Filter::Zstd { level: 3 },
            3 => Filter::Lz4 { level: -1 },
            4 => Filter::Rle,
            5 => Filter::Bzip2 { level: 1 },
            6 => Filter::DoubleDelta { reinterpret },
            7 => Filter::BitWidthReduction { max_window },
            8 => Filter::Bitshuffle,
            9 => Filter::Byteshuffle,
            10 => Filter::PositiveDelta { max_window },
            11 => Filter::Md5,
            12 => Filter::Sha256,
            13 => Filter::Xor,
            14 => Filter::Delta { reinterpret },
            _ => Filter::FloatScale {
                scale: 0.5,
                offset: 3.0,
                width: 4,
            },
        }
    }

    /// Returns values that all filters store without loss, in one of several distributions.
    fn values(&mut self, datatype: Datatype, count: usize) -> Vec<u8> {
        let (kind, size) = (self.below(4), datatype.size());
        let mut sum = self.below(50);
        let mut values = Vec::new();
        for _ in 0..count {
            sum += self.below(3);
            let value = match kind {
                0 => self.next(),
                1 => self.below(7),
                2 => 20,
                _ => sum,
            };
            match datatype {
                Datatype::Float32 => values.extend((value as u16 as f32 / 2.0).to_le_bytes()),
                Datatype::Float64 => values.extend((value as u16 as f64 / 2.0).to_le_bytes()),
                _ => values.extend(&value.to_le_bytes()[..size]),
            }
        }
        values
    }
}

fn decode(
    steps: &Steps,
    key: Option<&EncryptionKey>,
    tile: &[u8],
    length: usize,
) -> Decoded<Vec<u8>> {
    let mut fields = Fields::new(tile);
    assert_eq!(fields.u32("original").unwrap() as usize, length);
    let data = fields.u32("data").unwrap();
    let metadata = fields.u32("metadata").unwrap();
    let metadata = fields.take_u64("metadata", metadata.into()).unwrap();
    let data = fields.take_u64("data", data.into()).unwrap();
    fields.finish("chunk").unwrap();
    let mut output = vec![0; length];
    Codecs::default().decode(steps, key, metadata, data, &mut output)?;
    Ok(output)
}

#[test]
fn random_pipelines_are_undone() {
    let mut random = Random(1);
    let datatypes = [
        Datatype::Int8,
        Datatype::Uint8,
        Datatype::Int16,
        Datatype::Uint16,
        Datatype::Int32,
        Datatype::Uint32,
        Datatype::Int64,
        Datatype::Uint64,
        Datatype::Float32,
        Datatype::Float64,
        Datatype::DatetimeSecond,
        Datatype::Bool,
        Datatype::Char,
    ];
    let key = EncryptionKey::new(&[7; 32]).unwrap();
    let (mut encoder, mut done, mut refused) = (Encoder::default(), 0, 0);
    for round in 0..4000 {
        let datatype = datatypes[random.below(datatypes.len() as u64) as usize];
        let count = [0, 1, 2, 3, 9, 70, 1030][random.below(7) as usize];
        let plain = random.values(datatype, count);
        let (mut input, mut filters) = (datatype, Vec::new());
        for _ in 0..1 + random.below(4) {
            let filter = random.filter(input);
            // After another filter, rounding would change more than the last digits.
            if matches!(filter, Filter::FloatScale { .. }) && !filters.is_empty() {
                continue;
            }
            filters.push(filter);
            input = filter.output(input);
        }
        if random.below(3) == 0 {
            filters.push(Filter::Aes256Gcm);
        }
        let pipeline = Pipeline::new(filters);
        let Ok(steps) = Steps::new(&pipeline, datatype, datatype.size(), false, 22) else {
            continue;
        };
        let mut tile = Vec::new();
        match encoder.encode(&steps, Some(&key), &plain, &mut tile) {
            Ok(()) => {
                let decoded = decode(&steps, Some(&key), &tile, plain.len());
                assert!(
                    decoded == Ok(plain),
                    "round {round}: {datatype}, {pipeline}: {decoded:?}"
                );
                done += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(done > 2000, "{done} encoded, {refused} refused");
}

#[test]
fn texts_without_offsets() {
    let mut random = Random(2);
    for filter in [Filter::Rle, Filter::Dictionary] {
        for (count, longest) in [(0, 1), (1, 1), (300, 5), (70_000, 300), (900, 70_000)] {
            let (mut texts, mut offsets) = (Vec::new(), vec![0]);
            for _ in 0..count {
                let length = if random.below(9) < 8 {
                    3
                } else {
                    random.below(longest)
                };
                let letter = b'a' + random.below(2) as u8;
                texts.resize(texts.len() + length as usize, letter);
                offsets.push(texts.len() as u64);
            }
            let pipeline = Pipeline::new(vec![filter, Filter::Zstd { level: 1 }]);
            let steps = Steps::new(&pipeline, Datatype::StringUtf8, 1, true, 22).unwrap();
            let mut tile = Vec::new();
            let mut encoder = Encoder::default();
            encoder
                .encode_texts(&steps, None, (&texts, &offsets), &mut tile)
                .unwrap();
            let (stored, metadata) = (u32_at(&tile, 4), u32_at(&tile, 8));
            let (metadata, data) = tile[12..].split_at(metadata);
            assert_eq!(data.len(), stored);
            let (mut output, mut found) = (Vec::new(), Vec::new());
            Codecs::default()
                .decode_texts(
                    &steps,
                    None,
                    metadata,
                    data,
                    texts.len(),
                    &mut output,
                    (count, &mut found),
                )
                .unwrap();
            assert!(output == texts && found == offsets, "{filter}, {count}");
        }
    }
}

fn u32_at(bytes: &[u8], position: usize) -> usize {
    u32::from_le_bytes(bytes[position..position + 4].try_into().unwrap()) as usize
}

#[test]
fn values_that_a_filter_cannot_store() {
    let refusal = |filter, datatype, plain: &[u8]| {
        let pipeline = Pipeline::new(vec![filter]);
        let steps = Steps::new(&pipeline, datatype, datatype.size(), false, 22).unwrap();
        let result = Encoder::default().encode(&steps, None, plain, &mut Vec::new());
        result.unwrap_err().to_string()
    };
    let scale = Filter::FloatScale {
        scale: 1.0,
        offset: 0.0,
        width: 1,
    };
    for value in [f64::NAN, 128.0, -129.0] {
        let message = refusal(scale, Datatype::Float64, &value.to_le_bytes());
        assert!(
            message.contains("float-scale stores in 1 bytes"),
            "{message}"
        );
    }
    let delta = Filter::PositiveDelta { max_window: 100 };
    let message = refusal(delta, Datatype::Int8, &[1, 0xff]);
    assert!(message.contains("decreasing"), "{message}");
}
