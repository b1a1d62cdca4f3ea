//! Recognises file formats and remote locations that cannot be read, and says what to do instead.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes read from the start of a file.
const HEAD: u64 = 16;
/// The first bytes of HDF5 files, NetCDF-4 included, and of classic NetCDF files.
const NETCDF: [&[u8]; 4] = [b"\x89HDF\r\n\x1a\n", b"CDF\x01", b"CDF\x02", b"CDF\x05"];
/// The extensions of Parquet and Arrow files.
const ROWS: [&str; 3] = ["parquet", "arrow", "feather"];

/// Returns advice for a file whose format is not supported: what the file is, and how to get at its
/// contents. Returns `None` if the format is not recognised.
pub fn foreign(path: &Path) -> Option<String> {
    if let Some(advice) = remote_location_advice(&path.to_string_lossy()) {
        return Some(advice);
    }
    let mut head = Vec::new();
    // Other file types, such as pipes, may have no end.
    path.metadata().ok().filter(|metadata| metadata.is_file())?;
    let file = File::open(path).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let with_xarray = |engine: &str| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        format!(
            "make a Zarr directory of it with xarray: xarray.open_dataset('{name}'{engine}).to_zarr('{stem}.zarr')"
        )
    };
    let starts = |magic: &[&[u8]]| magic.iter().any(|magic| head.starts_with(magic));
    // Reached only without the formats, or if a program has removed them from its registry.
    let (what, instead) = if starts(&NETCDF) {
        let instead = "the program was built without the feature hdf5".to_string();
        ("an HDF5 or NetCDF file", instead)
    } else if starts(&[b"GRIB"]) {
        ("a GRIB file", with_xarray(", engine='cfgrib'"))
    } else if starts(&[b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"]) {
        ("a TIFF file", with_xarray(", engine='rasterio'"))
    } else if starts(&[b"PAR1", b"ARROW1"]) {
        let (what, keyword) = match head.starts_with(b"PAR1") {
            true => ("a Parquet file", "PARQUET"),
            false => ("an Arrow file", "ARROW"),
        };
        let extension = path.extension().unwrap_or_default();
        let is_named = ROWS.iter().any(|one| extension.eq_ignore_ascii_case(one));
        let usage = match is_named {
            true => format!("tet-sql {name}, or FROM '{name}' in SQL"),
            false => format!("CREATE EXTERNAL TABLE t STORED AS {keyword} LOCATION '{name}'"),
        };
        (what, format!("it holds rows, not arrays: {usage}"))
    } else {
        return None;
    };
    Some(format!("{what} cannot be read as arrays; {instead}"))
}

/// Returns advice for a location outside the file system, such as `s3://bucket/era5.zarr`. Returns
/// `None` for a path or a `file://` URL.
pub fn remote_location_advice(location: &str) -> Option<String> {
    // Path normalisation may have turned `://` into `:/`.
    let (scheme, rest) = location.split_once(":/")?;
    let is_scheme = |scheme: &str| {
        let mut characters = scheme.chars();
        let is_first = characters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic());
        // A single letter is a Windows drive.
        is_first
            && scheme.len() > 1
            && characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    if !is_scheme(scheme) || scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = rest.trim_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    let copy = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => format!("aws s3 cp --recursive s3://{path} {name}"),
        "gs" | "gcs" => format!("gcloud storage cp --recursive gs://{path} {name}"),
        "http" | "https" => format!("curl -O {scheme}://{path}"),
        _ => "rclone copies most stores".to_string(),
    };
    Some(format!(
        "{scheme}:// locations are not supported; copy the file to a local file system first: {copy}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_formats_are_recognised_by_their_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes, expected) in [
            ("a.nc", NETCDF[0], "was built without the feature hdf5"),
            ("b.nc", b"CDF\x01rest", "an HDF5 or NetCDF file"),
            ("a.grib2", b"GRIB\0\0", "engine='cfgrib'"),
            ("a.tif", b"II*\0", "a TIFF file"),
            ("a.tet", b"PAR1", "STORED AS PARQUET LOCATION 'a.tet'"),
            ("a.parquet", b"PAR1", "FROM 'a.parquet'"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let advice = foreign(&path).unwrap();
            assert!(advice.contains(expected), "{name}: {advice}");
        }
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "HDF").unwrap();
        assert_eq!(foreign(&path), None);
        assert_eq!(foreign(&folder.path().join("none")), None);
        assert_eq!(foreign(folder.path()), None);
    }

    #[test]
    fn remote_locations_are_recognised() {
        let advice = remote_location_advice("s3://bucket/era5.zarr").unwrap();
        assert!(
            advice.contains("aws s3 cp --recursive s3://bucket/era5.zarr era5.zarr"),
            "{advice}"
        );
        assert!(
            remote_location_advice("https://example.org/a.nc")
                .unwrap()
                .contains("curl -O")
        );
        for path in [
            "a.tet",
            "/a/b.tet",
            "file:///a.tet",
            "C:/a.tet",
            "odd:name.tet",
            "a b:/c",
        ] {
            assert_eq!(remote_location_advice(path), None, "{path}");
        }
    }
}
