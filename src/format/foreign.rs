//! Recognises file formats and remote locations that cannot be read, and says what to do instead.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes read from the start of a file: enough for an HDF5 signature after a 512-byte user block.
const HEAD: u64 = 520;
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

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
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let is_netcdf = ["nc", "nc4", "cdf"].contains(&extension.to_ascii_lowercase().as_str());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let with_xarray = |engine: &str| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        format!(
            "make a Zarr directory of it with xarray: xarray.open_dataset('{name}'{engine}).to_zarr('{stem}.zarr')"
        )
    };
    let starts = |magic: &[&[u8]]| magic.iter().any(|magic| head.starts_with(magic));
    let is_hdf5 = starts(&[HDF5]) || head.get(512..).is_some_and(|rest| rest.starts_with(HDF5));
    let (what, instead) = if is_hdf5 && is_netcdf {
        ("a NetCDF-4 file (HDF5)", with_xarray(""))
    } else if is_hdf5 {
        (
            "an HDF5 file",
            with_xarray(", engine='h5netcdf', phony_dims='sort'"),
        )
    } else if starts(&[b"CDF\x01", b"CDF\x02", b"CDF\x05"]) {
        ("a NetCDF file", with_xarray(""))
    } else if starts(&[b"GRIB"]) {
        ("a GRIB file", with_xarray(", engine='cfgrib'"))
    } else if starts(&[b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"]) {
        ("a TIFF file", with_xarray(", engine='rasterio'"))
    } else if starts(&[b"PAR1", b"ARROW1"]) {
        let what = match head.starts_with(b"PAR1") {
            true => "a Parquet file",
            false => "an Arrow file",
        };
        let instead = format!("it holds rows, not arrays: tet-sql {name}, or FROM '{name}' in SQL");
        (what, instead)
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
    let place = rest.trim_matches('/');
    let name = place.rsplit('/').next().unwrap_or(place);
    let copy = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => format!("aws s3 cp --recursive s3://{place} {name}"),
        "gs" | "gcs" => format!("gcloud storage cp --recursive gs://{place} {name}"),
        "http" | "https" => format!("curl -O {scheme}://{place}"),
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
        let userblock = [vec![0; 512], HDF5.to_vec()].concat();
        for (name, bytes, expected) in [
            (
                "a.nc",
                HDF5,
                "a NetCDF-4 file (HDF5) cannot be read as arrays",
            ),
            ("a.h5", HDF5, "open_dataset('a.h5', engine='h5netcdf'"),
            ("b.h5", userblock.as_slice(), "an HDF5 file"),
            (
                "b.nc",
                b"CDF\x01rest",
                "open_dataset('b.nc').to_zarr('b.zarr')",
            ),
            ("a.grib2", b"GRIB\0\0", "engine='cfgrib'"),
            ("a.tif", b"II*\0", "a TIFF file"),
            ("a.tet", b"PAR1", "a Parquet file"),
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
