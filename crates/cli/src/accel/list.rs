//! `uzswap accel list`

use uzswap_iaa::topology::{DEVICES, Topology};

use super::place::Place;
use crate::Failure;
use crate::output::print;

/// Print devices and work queues, and why those are of no use that are not.
pub(super) fn list(place: &Place) -> Result<u8, Failure> {
    let devices = place.devices();
    if devices.is_empty() {
        return Err(Failure::new(format!("{}: {DEVICES} has no iax device", place.name())));
    }
    print(&table(place, &devices))?;
    Ok(0)
}

fn table(place: &Place, devices: &[String]) -> String {
    let topology = Topology::discover(place);
    let mut text = format!("devices of {}\n", place.name());
    let attribute = |path: &str| place.attribute(path).unwrap_or_else(|| "-".into());
    for device in devices {
        let of = |name: &str| attribute(&format!("{device}/{name}"));
        let engines = place.parts(device, "engine");
        let grouped = engines
            .iter()
            .filter(|engine| of(&format!("{engine}/group_id")) != "-1");
        text += &format!(
            "{device}: {}, version {}, node {}, {} entries, {} of {} engines\n",
            of("state"),
            of("version"),
            of("numa_node"),
            of("max_work_queues_size"),
            grouped.count(),
            engines.len()
        );
        for queue in place.parts(device, "wq") {
            let of = |name: &str| of(&format!("{queue}/{name}"));
            let is_used = topology.queues().any(|used| used.id.to_string() == queue);
            text += &format!(
                "  {queue}: {}, {}, type {}, size {}, threshold {}{}\n",
                of("state"),
                of("mode"),
                of("type"),
                of("size"),
                of("threshold"),
                if is_used { ": used" } else { "" }
            );
        }
    }
    for refusal in &topology.refusals {
        text += &format!("not used: {refusal}\n");
    }
    text
}

#[cfg(test)]
mod test {
    use super::super::options::{Machine, model};
    use super::*;

    #[test]
    fn a_models_devices_are_listed() {
        let machine = Machine {
            iaa_model: Some(model("devices=2,wqs=2,mode=dedicated").unwrap()),
            root: None,
        };
        let place = Place::of(&machine).unwrap();
        let said = table(&place, &place.devices());
        for line in [
            "devices of the MODEL",
            "iax1: enabled, version 0x200, node 0, 128 entries, 8 of 8 engines",
            "  wq3.1: enabled, dedicated, type user, size 64, threshold 0: used",
        ] {
            assert!(said.contains(line), "{said}");
        }
        place.write(&Place::driver("wq1.0", "unbind"), "wq1.0").unwrap();
        let said = table(&place, &place.devices());
        assert!(said.contains("not used: wq1.0: state"), "{said}");
    }

    #[test]
    fn where_there_is_none_that_is_said() {
        let root = std::env::temp_dir();
        let machine = Machine {
            iaa_model: None,
            root: Some(root.join("nowhere")),
        };
        assert!(
            Place::of(&machine)
                .err()
                .unwrap()
                .0
                .ends_with("nowhere: is not a directory")
        );
        let place = Place::Files(root);
        let line = list(&place).unwrap_err().0;
        assert_eq!(line, "the directory: /sys/bus/dsa/devices has no iax device");
    }
}
