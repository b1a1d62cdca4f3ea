//! Writes charts to files.

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

/// Writes a chart in the format given by the extension of `path`.
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

/// Resolves links in `path`. Fails if it exists and is not a regular file, which must not be
/// replaced.
fn target(path: &Path) -> Result<PathBuf, String> {
    let Ok(found) = path.canonicalize() else {
        return Ok(path.to_owned());
    };
    if !found.is_file() {
        return Err("is not a regular file, so a picture cannot replace it".to_owned());
    }
    Ok(found)
}

/// Writes a temporary file next to the target and renames it, so that no reader sees a partial
/// picture.
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
