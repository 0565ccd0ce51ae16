//! Renders pages from a template with loops, conditions and filters (crate `minijinja`).

use std::collections::BTreeMap;

use minijinja::{Environment, Value};

use crate::text;
use crate::{Job, Scale, checksum};

const ROWS: usize = 18_000;

const PAGE: &str = "<h1>{{ title|upper }}</h1>\n<table>\n{% for row in rows %}\
    <tr class=\"{{ loop.cycle('odd', 'even') }}\"><td>{{ loop.index }}</td><td>{{ row.name|title }}</td>\
    {% if row.count > 500 and not row.name == 'none' %}<td><b>{{ row.count }}</b></td>\
    {% else %}<td>{{ row.count * 2 + 1 }}</td>{% endif %}\
    {% for tag in row.tags %}<i>{{ tag }}</i>{% if not loop.last %}, {% endif %}{% endfor %}</tr>\n\
    {% endfor %}</table>\n";

pub(crate) fn prepare(scale: Scale) -> Job {
    let (environment, rows) = (environment(), rows(scale.of(ROWS)));
    Box::new(move || checksum(rendered(&environment, &rows).bytes().step_by(16).map(u64::from)))
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.add_template("page.html", PAGE).expect("the template is fixed and well-formed");
    environment
}

fn rendered(environment: &Environment<'_>, rows: &Value) -> String {
    let page = environment.get_template("page.html").expect("it was added");
    let context = BTreeMap::from([("title", Value::from("a & b")), ("rows", rows.clone())]);
    page.render(Value::from(context)).expect("it has all that the template names")
}

fn rows(count: usize) -> Value {
    let mut random = fastrand::Rng::with_seed(50);
    let words = text::words(51, 4 * count);
    let mut words = words.split_whitespace().cycle();
    let row = |_| {
        let name = Value::from(format!("{} <{}>", words.next().unwrap_or(""), words.next().unwrap_or("")));
        let tags: Vec<Value> = words.by_ref().take(random.usize(0..4)).map(Value::from).collect();
        let count = Value::from(random.u32(0..1000));
        Value::from(BTreeMap::from([("name", name), ("count", count), ("tags", Value::from(tags))]))
    };
    Value::from((0..count).map(row).collect::<Vec<Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_rendered_and_escaped() {
        let page = rendered(&environment(), &rows(100));
        assert!(page.starts_with("<h1>A &amp; B</h1>"), "{page}");
        assert_eq!((page.matches("<tr class=\"odd\">").count(), page.matches("&gt;</td>").count()), (50, 100));
    }
}
