//! Short names for what drivers call their devices.

/// The SKU under which jobs ask for a device that calls itself so: `NVIDIA H100 80GB HBM3` is
/// `h100-sxm`. An unknown device keeps its own name in the form that job specs can write.
#[must_use]
pub fn sku(product: &str) -> String {
    let name = product.trim().trim_start_matches("NVIDIA").trim().to_ascii_lowercase();
    let pcie = name.contains("pcie") || name.contains("nvl");
    for family in ["h100", "h200", "b200", "b300", "gb200", "gb300", "a100"] {
        if name.split([' ', '-']).any(|word| word == family) {
            let form = match family {
                "gb200" | "gb300" => return family.to_string(),
                _ if name.contains("nvl") => "nvl",
                _ if pcie => "pcie",
                _ => "sxm",
            };
            return format!("{family}-{form}");
        }
    }
    let mut out = String::new();
    for c in name.chars() {
        match c {
            'a'..='z' | '0'..='9' | '.' => out.push(c),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "gpu".into() } else { out.into() }
}

#[cfg(test)]
mod tests {
    use super::sku;

    #[test]
    fn products_get_the_names_that_people_ask_for() {
        for (product, want) in [
            ("NVIDIA H100 80GB HBM3", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-pcie"),
            ("NVIDIA H100 NVL", "h100-nvl"),
            ("NVIDIA H200", "h200-sxm"),
            ("NVIDIA B200", "b200-sxm"),
            ("NVIDIA GB200", "gb200"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm"),
            ("NVIDIA A100-PCIE-40GB", "a100-pcie"),
            ("Tesla T4", "tesla-t4"),
            ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
            ("NVIDIA L40S", "l40s"),
            ("\u{7}", "gpu"),
        ] {
            assert_eq!(sku(product), want, "{product}");
        }
    }
}
