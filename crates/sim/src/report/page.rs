//! The page itself: summary first, what was missed before what was met, then each scenario.

use std::fmt::Write;

use super::tables::{checks_table, metrics_table};
use crate::document::{CheckResult, Document};
use crate::number::precise;
use crate::plot::{self, escaped};

pub(super) fn page(documents: &[Document]) -> String {
    let mut body = String::new();
    summary(&mut body, documents);
    for document in documents {
        section(&mut body, document);
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>evenkeel: what the laboratory shows</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn summary(body: &mut String, documents: &[Document]) {
    let checks = || documents.iter().flat_map(|document| &document.checks);
    let (met, all) = (checks().filter(|check| check.pass).count(), checks().count());
    let class = if met == all { "pass" } else { "miss" };
    push(body, "<h1>What the laboratory shows</h1>");
    push(body, &format!("<p class=\"verdict {class}\">{met} of {all} goals met</p>"));
    push(
        body,
        "<p>The production decisions of evenkeel on an event queue. Every number below is repeated, byte for byte, by \
         the command under its scenario.</p>",
    );
    push(
        body,
        "<div class=\"wide\"><table class=\"names\">\n<thead><tr><th>scenario</th><th>goals met</th><th>about</th></tr></thead>",
    );
    push(body, "<tbody>");
    let mut ordered: Vec<&Document> = documents.iter().collect();
    // A stable sort: scenarios that miss goals come first, each kind in its own order.
    ordered.sort_by_key(|document| missed(document).next().is_none());
    for document in ordered {
        let met = document.checks.iter().filter(|check| check.pass).count();
        let class = if met == document.checks.len() { "pass" } else { "miss" };
        let name = escaped(&document.scenario);
        push(
            body,
            &format!(
                "<tr><td><a href=\"#{name}\">{name}</a></td><td class=\"{class}\">{met} of {}</td><td>{}</td></tr>",
                document.checks.len(),
                escaped(&document.about)
            ),
        );
    }
    push(body, "</tbody></table></div>");
    missed_list(body, documents);
}

fn missed_list(body: &mut String, documents: &[Document]) {
    if documents.iter().all(|document| missed(document).next().is_none()) {
        return;
    }
    push(body, "<h2>Goals missed</h2>\n<ul>");
    for document in documents {
        for check in missed(document) {
            let measured = check.measured.map_or("not measured".to_owned(), precise);
            let (name, what, goal) = (escaped(&document.scenario), escaped(&check.what), escaped(&check.goal));
            push(body, &format!("<li><a href=\"#{name}\">{name}</a>: {what}: {measured}, and the goal is {goal}</li>"));
        }
    }
    push(body, "</ul>");
}

fn missed(document: &Document) -> impl Iterator<Item = &CheckResult> {
    document.checks.iter().filter(|check| !check.pass)
}

fn section(body: &mut String, document: &Document) {
    let name = escaped(&document.scenario);
    push(body, &format!("<section id=\"{name}\">\n<h2>{name}</h2>\n<p>{}</p>", escaped(&document.about)));
    for figure in &document.figures {
        if let Some(svg) = plot::draw(document, figure) {
            let caption = escaped(&figure.caption);
            let caption = if caption.is_empty() { caption } else { format!("<figcaption>{caption}</figcaption>\n") };
            push(body, &format!("<figure>\n<div class=\"wide\">\n{svg}</div>\n{caption}</figure>"));
        }
    }
    body.push_str(&checks_table(&document.checks));
    body.push_str(&metrics_table(document));
    push(body, &format!("<p>To repeat it:</p>\n<pre><code>{}</code></pre>\n</section>", escaped(&command(document))));
}

/// What to type for the same document.
fn command(document: &Document) -> String {
    let mut command = format!("evenkeel sim run {} --seed {}", document.scenario, document.seed);
    if document.seeds > 1 {
        let _infallible = write!(command, " --seeds {}", document.seeds);
    }
    if let Some(policy) = &document.input.policy {
        let _infallible = write!(command, " --policy {policy}");
    }
    for set in &document.input.set {
        let _infallible = write!(command, " --set '{}'", set.replace('\'', r"'\''"));
    }
    command
}

fn push(body: &mut String, line: &str) {
    body.push_str(line);
    body.push('\n');
}

const STYLE: &str = include_str!("style.css");
