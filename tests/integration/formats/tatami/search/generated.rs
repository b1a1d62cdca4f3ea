//! Generated segments, searched as fast as possible and by adding up the scores of all documents.

use std::collections::{BTreeMap, HashMap};

use tet_sql::format::tatami::search::{Hit, Mode, Segment};

use super::segments::{File, Random, build, open};

/// Documents as the frequencies of their words.
type Documents = Vec<BTreeMap<String, u32>>;

/// All postings, without blocks.
struct Brute {
    documents: usize,
    postings: HashMap<String, Vec<(u32, u32)>>,
    is_live: fn(u64) -> bool,
}

impl Brute {
    fn new(documents: &Documents, is_live: fn(u64) -> bool) -> Self {
        let mut postings: HashMap<String, Vec<(u32, u32)>> = HashMap::new();
        for (document, words) in documents.iter().enumerate() {
            for (word, frequency) in words {
                postings
                    .entry(word.clone())
                    .or_default()
                    .push((document as u32, *frequency));
            }
        }
        Self {
            documents: documents.len(),
            postings,
            is_live,
        }
    }

    /// All matches, in the order of results.
    fn search(&self, words: &[String], mode: Mode) -> Vec<Hit> {
        let mut scores: BTreeMap<u32, (f32, usize)> = BTreeMap::new();
        for word in words {
            let Some(postings) = self.postings.get(word) else {
                continue;
            };
            let (n, df) = (self.documents as f64, postings.len() as f64);
            let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln() as f32;
            for &(document, frequency) in postings {
                let frequency = frequency as f32;
                let score = idf * frequency * 2.2 / (1.2 + frequency);
                let sum = scores.entry(document).or_default();
                *sum = (sum.0 + score, sum.1 + 1);
            }
        }
        let needed = match mode {
            Mode::Any => 1,
            Mode::All => words.len(),
        };
        let mut hits: Vec<Hit> = scores
            .into_iter()
            .filter(|&(document, (_, count))| count >= needed && (self.is_live)(document.into()))
            .map(|(document, (score, _))| Hit { document, score })
            .collect();
        hits.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.document.cmp(&b.document))
        });
        hits
    }
}

fn text(words: &BTreeMap<String, u32>) -> Vec<u8> {
    let mut text = String::new();
    for (word, frequency) in words {
        for _ in 0..*frequency {
            text += word;
            text += " ";
        }
    }
    text.into_bytes()
}

/// Word `n` is in about one document of `n + 1`. Frequencies are mostly one, with some high ones, or one
/// always.
fn documents(random: &mut Random, count: u64, is_flat: bool) -> Documents {
    let words = random.below(60) + 3;
    // Stretches of documents without some words, so that there are long gaps between blocks.
    let stretch = random.below(1500) + 20;
    let document = |id: u64| {
        let mut document = BTreeMap::new();
        for word in 0..words {
            let is_absent = (id / stretch + word).is_multiple_of(5) && word % 3 == 1;
            if !is_absent && random.below(word + 1) == 0 {
                let frequency = match random.below(400) {
                    _ if is_flat => 1,
                    0 => random.below(3000) + 1,
                    1..40 => random.below(20) + 1,
                    _ => random.below(2) + 1,
                };
                document.insert(format!("w{word}"), frequency as u32);
            }
        }
        document
    };
    (0..count).map(document).collect()
}

fn query(random: &mut Random) -> Vec<String> {
    let count = match random.below(10) {
        0 => random.below(12) + 1,
        _ => random.below(3) + 1,
    };
    (0..count)
        .map(|_| match random.below(30) {
            0 => "unknown".to_string(),
            _ => format!("w{}", random.below(random.0 % 64 + 1)),
        })
        .collect()
}

fn bits(hits: &[Hit]) -> Vec<(u32, u32)> {
    hits.iter()
        .map(|hit| (hit.document, hit.score.to_bits()))
        .collect()
}

fn check(segment: &Segment, brute: &Brute, random: &mut Random) {
    let words = query(random);
    let text = words.join(" ");
    for mode in [Mode::Any, Mode::All] {
        let expected = brute.search(&words, mode);
        for k in [
            1,
            1 + random.below(20) as usize,
            1 + random.below(1000) as usize,
        ] {
            let found = segment.search(&text, mode, k).unwrap();
            let expected = &expected[..k.min(expected.len())];
            assert_eq!(bits(&found), bits(expected), "{text}, {mode}, {k}");
        }
        if random.below(8) == 0 {
            let mut found = Vec::new();
            let mut matches = segment.matches(&text, mode).unwrap();
            while matches.next_batch(&mut found).unwrap() {}
            assert!(found.is_sorted_by_key(|hit| hit.document));
            found.sort();
            assert_eq!(bits(&found), bits(&expected), "{text}, {mode}");
            let mut hits = segment.hits(&text, mode, 1 + random.below(3000) as usize);
            let mut found = Vec::new();
            while let Some(batch) = hits.next_batch().unwrap() {
                found.extend_from_slice(batch);
            }
            assert_eq!(bits(&found), bits(&expected), "{text}, {mode}");
        }
    }
    assert!(segment.search(&text, Mode::Any, 0).unwrap().is_empty());
}

#[test]
fn skipping_blocks_gives_the_same_hits_as_scoring_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut searches = 0;
    for seed in 0..40 {
        let mut random = Random(seed);
        let count = match seed % 4 {
            0 => random.below(200) + 1,
            1..3 => random.below(3000) + 1,
            _ => random.below(12_000) + 1,
        };
        let documents = documents(&mut random, count, seed % 5 == 4);
        let is_live: Option<fn(u64) -> bool> = (seed % 3 == 2).then_some(|id| id % 7 > 1);
        let brute = Brute::new(&documents, is_live.unwrap_or(|_| true));
        let texts = documents.iter().map(text);
        let file = match is_live {
            Some(is_live) => build(texts, 1 << 20, Some(&is_live)),
            None => build(texts, 1 << 20, None),
        };
        let segment = open(&directory.path().join(format!("{seed}.tatami")), &file);
        segment.verify().unwrap();
        let queries = if count > 3000 { 100 } else { 300 };
        for _ in 0..queries {
            check(&segment, &brute, &mut random);
            searches += 6;
        }
    }
    assert!(searches > 50_000, "{searches}");
}

#[test]
fn runs_on_disk_give_the_same_file() {
    for seed in 0..4 {
        let mut random = Random(seed + 100);
        let documents = documents(&mut random, 3000, false);
        let files: Vec<File> = [usize::MAX, 1 << 20, 100_000, 0]
            .iter()
            .map(|&budget| build(documents.iter().map(text), budget, None))
            .collect();
        for file in &files[1..] {
            assert!(file.bytes == files[0].bytes);
        }
    }
}
