//! Charts as files.

mod font;
mod html;
mod layout;
mod page;
mod png;
mod scene;
mod svg;

use super::Chart;
use std::io::Write;
use std::path::{Path, PathBuf};
use tet_sql::provider::adapters::arrays::is_array_file;

/// Writes a chart as its path's ending says.
pub fn write(chart: &Chart, path: &Path) -> Result<(), String> {
    let named = |text: &str| format!("{}: {text}", path.display());
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    let draw: fn(&Chart) -> Result<Vec<u8>, String> = match ending.as_str() {
        "svg" => |chart| Ok(svg::text(&layout::scene(chart)?).into_bytes()),
        "png" => |chart| png::bytes(&layout::scene(chart)?),
        "html" | "htm" => |chart| Ok(html::text(&layout::scene(chart)?)?.into_bytes()),
        _ => return Err(named("pictures end in .svg, .png or .html")),
    };
    let target = target(path).map_err(|error| named(&error))?;
    let picture = draw(chart)?;
    replace(&target, &picture).map_err(|error| named(&error.to_string()))
}

/// The file that a path leads to, if a picture may have its place.
fn target(path: &Path) -> Result<PathBuf, String> {
    let Ok(found) = path.canonicalize() else {
        return Ok(path.to_owned());
    };
    if !found.is_file() {
        return Err("is no file, and is not replaced by a picture".to_owned());
    }
    if is_array_file(&found) {
        return Err("is an array file, which is not overwritten".to_owned());
    }
    Ok(found)
}

/// Writes a temporary file beside the target, which then takes its name: nobody sees half a picture.
fn replace(target: &Path, picture: &[u8]) -> std::io::Result<()> {
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tet-sql-").suffix(".tmp");
    // Temporary files are private by default; a picture gets the permissions of any new file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(picture)?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    Ok(())
}
