//! `uzswap set` and `uzswap get`: the settings of a running group.

use serde_json::Value;
use uzswap_ctl::{Setting, Tunable};

use crate::look_options::GetOptions;
use crate::options::SetOptions;
use crate::output::print;
use crate::{Failure, accel, group, misuse, setting};

/// `uzswap set`
pub(crate) fn set(options: &SetOptions) -> Result<u8, Failure> {
    let open = group::find(Some(&options.group))?;
    let changes = match setting::changes(&open.group, &options.settings) {
        Ok(changes) => changes,
        Err(rule) => return Ok(misuse(&rule)),
    };
    for (key, value) in &changes {
        if [Tunable::Compressor, Tunable::Recompress]
            .map(Setting::from)
            .contains(key)
        {
            accel::check_set(&open.group, *value)?;
        }
    }
    setting::set_all(open.group, &changes).map_err(Failure)?;
    Ok(0)
}

/// `uzswap get`
pub(crate) fn get(options: &GetOptions) -> Result<u8, Failure> {
    let open = group::find(Some(&options.group))?;
    let all = setting::all(&open.group);
    let is_wanted = |key: &str| options.keys.is_empty() || options.keys.iter().any(|wanted| wanted == key);
    let wanted: Vec<_> = all.into_iter().filter(|(key, _)| is_wanted(key)).collect();
    let text = match options.json {
        true => format!("{:#}\n", Value::Object(setting::object(wanted))),
        false => wanted.iter().map(|(key, value)| format!("{key}={value}\n")).collect(),
    };
    print(&text)?;
    Ok(0)
}
