//! Reads JSON into types, adds it up, and writes it again (crate `serde_json`).

use serde::{Deserialize, Serialize};

use crate::text;
use crate::{Job, Scale, checksum};

const ORDERS: usize = 25_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
    paid: bool,
    discount: Option<f64>,
    items: Vec<Item>,
    tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Item {
    name: String,
    price: f64,
    count: u32,
}

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = serde_json::to_string(&orders(scale.of(ORDERS))).expect("orders are plain data");
    Box::new(move || {
        let (total, written) = round_trip(&text);
        checksum([total.to_bits()].into_iter().chain(written.bytes().map(u64::from)))
    })
}

/// What all orders are worth, and the text with the discounts taken out.
fn round_trip(text: &str) -> (f64, String) {
    let mut orders: Vec<Order> = serde_json::from_str(text).expect("the text was written from orders");
    let mut total = 0.0;
    for order in &mut orders {
        let worth: f64 = order.items.iter().map(|item| item.price * f64::from(item.count)).sum();
        total += worth * (1.0 - order.discount.take().unwrap_or(0.0));
    }
    (total, serde_json::to_string(&orders).expect("orders are plain data"))
}

fn orders(count: usize) -> Vec<Order> {
    let mut random = fastrand::Rng::with_seed(33);
    let words = text::words(34, 10 * count + 20);
    let mut words = words.split_whitespace().map(str::to_owned).cycle();
    let mut word = || words.next().unwrap_or_default();
    (0..count as u64)
        .map(|number| Order {
            number,
            customer: format!("{} \"{}\"", word(), word()),
            paid: random.bool(),
            discount: random.bool().then(|| random.f64() / 2.0),
            items: (0..random.usize(1..4))
                .map(|_| Item {
                    name: word(),
                    price: f64::from(random.u32(0..10_000)) / 100.0,
                    count: random.u32(1..9),
                })
                .collect(),
            tags: (0..random.usize(0..3)).map(|_| word()).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_back_without_discount_and_their_worth_is_right() {
        let mut orders = orders(200);
        let worth = |order: &Order| -> f64 {
            let full: f64 = order.items.iter().map(|item| item.price * f64::from(item.count)).sum();
            full * (1.0 - order.discount.unwrap_or(0.0))
        };
        let expected: f64 = orders.iter().map(worth).sum();
        let (total, written) = round_trip(&serde_json::to_string(&orders).unwrap());
        orders.iter_mut().for_each(|order| order.discount = None);
        assert_eq!(serde_json::from_str::<Vec<Order>>(&written).unwrap(), orders);
        assert!((total / expected - 1.0).abs() < 1e-12);
    }
}
