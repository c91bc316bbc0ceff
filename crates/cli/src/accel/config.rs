//! `uzswap accel config`: what the kernel's documentation has a script do.
//!
//! Of each device: its queues and itself are disabled, entries are shared among the queues, and
//! queues and engines are put into group 0. Then device and queues are enabled.

use uzswap_iaa::topology::DEVICES;

use super::options::{Config, Mode};
use super::place::Place;
use crate::Failure;
use crate::output::print;

/// Bytes that a descriptor may move: far more than a page.
const MAX_TRANSFER: &str = "2097152";

/// A write to a file.
type Step = (String, String);

/// What is to be written for a device, in order.
struct Plan {
    device: String,
    steps: Vec<Step>,
}

pub(super) fn config(options: &Config) -> Result<u8, Failure> {
    let place = Place::of(&options.machine)?;
    // All are checked before any is touched.
    let plans = plans(&place, options)?;
    let mut text = String::new();
    for plan in &plans {
        for (path, value) in &plan.steps {
            match options.dry_run {
                true => text += &format!("echo {value} > {path}\n"),
                false => apply(&place, &plan.device, path, value)?,
            }
        }
        if !options.dry_run {
            text += &format!("{}: {} {} work queues\n", plan.device, options.wqs, options.mode.name());
        }
    }
    print(&text)?;
    Ok(0)
}

fn apply(place: &Place, device: &str, path: &str, value: &str) -> Result<(), Failure> {
    place.write(path, value).map_err(|error| {
        let status = place.attribute(&format!("{device}/cmd_status"));
        let status = status.filter(|status| status != "0x0" && status != "0");
        let status = status.map_or_else(String::new, |status| format!("; cmd_status of {device} is {status}"));
        Failure::new(format!("{path}: '{value}': {error}{status}"))
    })
}

fn plans(place: &Place, options: &Config) -> Result<Vec<Plan>, Failure> {
    let names = place.devices();
    if names.is_empty() {
        return Err(Failure::new(format!("{}: {DEVICES} has no iax device", place.name())));
    }
    let wanted = options.devices.unwrap_or(names.len() as u32) as usize;
    if wanted > names.len() {
        return Err(Failure::new(format!(
            "--devices {wanted}: {} has {}",
            place.name(),
            names.len()
        )));
    }
    names[..wanted]
        .iter()
        .map(|device| plan(place, device, options))
        .collect()
}

fn number(place: &Place, path: &str) -> Result<u32, Failure> {
    let text = place.attribute(path).unwrap_or_default();
    text.parse()
        .map_err(|_| Failure::new(format!("{DEVICES}/{path}: '{text}' is no number")))
}

/// Whether a device with so many queues and engines can be configured as asked for.
fn check(place: &Place, device: &str, options: &Config, (queues, engines): (usize, usize)) -> Result<(), Failure> {
    let most = number(place, &format!("{device}/max_work_queues"))?.min(queues as u32);
    if options.wqs > most {
        return Err(Failure::new(format!(
            "--wqs {}: {device} has {most} work queues",
            options.wqs
        )));
    }
    if let Some(wanted) = options.engines.filter(|wanted| *wanted as usize > engines) {
        return Err(Failure::new(format!(
            "--engines {wanted}: {device} has {engines} engines"
        )));
    }
    let is_fixed = place
        .attribute(&format!("{device}/configurable"))
        .is_some_and(|text| text == "0");
    match is_fixed {
        true => Err(Failure::new(format!(
            "{device}: its configuration is fixed (configurable is 0)"
        ))),
        false => Ok(()),
    }
}

/// The steps that take a device and its queues from their driver.
fn unbind(place: &Place, device: &str, queues: &[String]) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    let is_on = |path: &str| {
        place
            .attribute(&format!("{path}/state"))
            .is_some_and(|state| state == "enabled")
    };
    for queue in queues.iter().filter(|queue| is_on(&format!("{device}/{queue}"))) {
        if place
            .attribute(&format!("{device}/{queue}/type"))
            .is_some_and(|kind| kind == "kernel")
        {
            return Err(Failure::new(format!(
                "{queue}: the kernel uses it (type kernel); unload iaa_crypto first"
            )));
        }
        steps.push((Place::driver(queue, "unbind"), queue.clone()));
    }
    if is_on(device) {
        steps.push((Place::driver(device, "unbind"), device.to_owned()));
    }
    Ok(steps)
}

fn plan(place: &Place, device: &str, options: &Config) -> Result<Plan, Failure> {
    let (queues, engines) = (place.parts(device, "wq"), place.parts(device, "engine"));
    let engines_wanted = options.engines.unwrap_or(engines.len() as u32);
    check(place, device, options, (queues.len(), engines.len()))?;
    let mut steps = unbind(place, device, &queues)?;
    let mut set =
        |part: &str, name: &str, value: String| steps.push((format!("{DEVICES}/{device}/{part}/{name}"), value));
    for (i, engine) in engines.iter().enumerate() {
        let group = if i < engines_wanted as usize { "0" } else { "-1" };
        set(engine, "group_id", group.into());
    }
    // No queue gets entries that another one has still.
    queues.iter().for_each(|queue| set(queue, "size", "0".into()));
    let size = number(place, &format!("{device}/max_work_queues_size"))? / options.wqs;
    let used = &queues[..options.wqs as usize];
    for queue in used {
        let mut set = |name, value: &str| set(queue, name, value.to_owned());
        set("mode", options.mode.name());
        set("size", &size.to_string());
        if options.mode == Mode::Shared {
            set("threshold", &size.to_string());
        }
        set("priority", "10");
        set("group_id", "0");
        set("block_on_fault", "0");
        set("max_transfer_size", MAX_TRANSFER);
        set("type", "user");
        set("name", "uzswap");
        set("driver_name", "user");
    }
    steps.push((Place::driver(device, "bind"), device.to_owned()));
    steps.extend(used.iter().map(|queue| (Place::driver(queue, "bind"), queue.clone())));
    Ok(Plan {
        device: device.to_owned(),
        steps,
    })
}

#[cfg(test)]
mod test {
    use std::path::PathBuf;

    use uzswap_iaa::topology::Topology;

    use super::super::options::{Machine, model};
    use super::*;

    fn config_of(machine: Machine) -> Config {
        Config {
            machine,
            devices: None,
            wqs: 2,
            engines: None,
            mode: Mode::Shared,
            dry_run: false,
        }
    }

    fn of_model(text: &str) -> Machine {
        Machine {
            iaa_model: Some(model(text).unwrap()),
            root: None,
        }
    }

    fn configure(place: &Place, options: &Config) -> Result<(), Failure> {
        for plan in plans(place, options)? {
            for (path, value) in plan.steps {
                apply(place, &plan.device, &path, &value)?;
            }
        }
        Ok(())
    }

    #[test]
    fn a_models_devices_are_used_as_configured() {
        for (wqs, engines, mode) in [
            (1, None, Mode::Shared),
            (4, Some(2), Mode::Dedicated),
            (8, Some(8), Mode::Shared),
        ] {
            let options = Config {
                wqs,
                engines,
                mode,
                ..config_of(of_model("devices=3,wqs=8"))
            };
            let place = Place::of(&options.machine).unwrap();
            configure(&place, &options).unwrap();
            let topology = Topology::discover(&place);
            let queues: Vec<_> = topology.queues().collect();
            assert_eq!(queues.len(), 3 * wqs as usize);
            assert!(
                queues
                    .iter()
                    .all(|queue| queue.size == 128 / wqs && queue.capacity() == 128 / wqs)
            );
            // And once more, as they are enabled now.
            configure(&place, &options).unwrap();
            assert_eq!(Topology::discover(&place).queues().count(), 3 * wqs as usize);
        }
    }

    #[test]
    fn each_refusal_names_the_value() {
        let place = Place::of(&of_model("devices=1,wqs=2")).unwrap();
        let refusal = |change: fn(&mut Config)| {
            let mut options = config_of(of_model(""));
            change(&mut options);
            configure(&place, &options).unwrap_err().0
        };
        assert_eq!(
            refusal(|options| options.devices = Some(4)),
            "--devices 4: the MODEL has 1"
        );
        assert_eq!(refusal(|options| options.wqs = 9), "--wqs 9: iax1 has 8 work queues");
        assert_eq!(
            refusal(|options| options.engines = Some(9)),
            "--engines 9: iax1 has 8 engines"
        );
        let error = apply(&place, "iax1", &format!("{DEVICES}/iax1/wq1.0/size"), "9")
            .unwrap_err()
            .0;
        assert!(
            error.starts_with("/sys/bus/dsa/devices/iax1/wq1.0/size: '9': Operation not permitted"),
            "{error}"
        );
        let error = apply(&place, "iax1", &Place::driver("wq1.0", "bind"), "wq1.0")
            .unwrap_err()
            .0;
        assert!(error.ends_with("cmd_status of iax1 is 0x80000021"), "{error}");
    }

    /// A directory with the attributes of a model's devices.
    struct Copied(PathBuf);

    impl Copied {
        fn new(name: &str, text: &str) -> Self {
            let root = std::env::temp_dir().join(format!("uzswap-sysfs-{}-{name}", std::process::id()));
            let Place::Model(model) = Place::of(&of_model(text)).unwrap() else {
                unreachable!()
            };
            for (path, text) in model.machine.sysfs().files() {
                let path = root.join(&DEVICES[1..]).join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("{text}\n")).unwrap();
            }
            for driver in ["idxd", "user"] {
                std::fs::create_dir_all(root.join("sys/bus/dsa/drivers").join(driver)).unwrap();
            }
            Self(root)
        }

        fn machine(&self) -> Machine {
            Machine {
                iaa_model: None,
                root: Some(self.0.clone()),
            }
        }
    }

    impl Drop for Copied {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_written_beneath_a_root() {
        let copied = Copied::new("written", "devices=1,wqs=2");
        let options = config_of(copied.machine());
        let place = Place::of(&options.machine).unwrap();
        configure(&place, &options).unwrap();
        let text = |path| std::fs::read_to_string(copied.0.join(path)).unwrap();
        assert_eq!(text("sys/bus/dsa/devices/iax1/wq1.1/threshold"), "64");
        assert_eq!(text("sys/bus/dsa/drivers/user/bind"), "wq1.1");
        assert_eq!(text("sys/bus/dsa/drivers/idxd/unbind"), "iax1");
        // What the kernel uses is left alone.
        std::fs::write(copied.0.join("sys/bus/dsa/devices/iax1/wq1.0/type"), "kernel").unwrap();
        let refusal = configure(&place, &options).unwrap_err().0;
        assert_eq!(
            refusal,
            "wq1.0: the kernel uses it (type kernel); unload iaa_crypto first"
        );
        std::fs::write(copied.0.join("sys/bus/dsa/devices/iax1/max_work_queues_size"), "many").unwrap();
        std::fs::write(copied.0.join("sys/bus/dsa/devices/iax1/wq1.0/type"), "user").unwrap();
        let refusal = configure(&place, &options).unwrap_err().0;
        assert_eq!(
            refusal,
            "/sys/bus/dsa/devices/iax1/max_work_queues_size: 'many' is no number"
        );
    }

    #[test]
    fn a_dry_run_writes_nothing() {
        let copied = Copied::new("dry", "devices=1,wqs=1");
        let options = Config {
            dry_run: true,
            wqs: 1,
            ..config_of(copied.machine())
        };
        assert_eq!(config(&options).unwrap(), 0);
        assert!(!copied.0.join("sys/bus/dsa/drivers/user/bind").exists());
    }
}
