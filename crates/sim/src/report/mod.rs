//! The report: one page for all scenarios, with their figures, goals and how to repeat them.
//!
//! Nothing in it depends on when or where it was made, so that two runs give the same bytes and a change shows as one.

mod page;
mod tables;

use crate::document::Document;
use crate::plot;

/// One page with everything in it: no script, nothing loaded from elsewhere, light or dark as the reader has it.
pub fn page(documents: &[Document]) -> String {
    page::page(documents)
}

/// The page and, for each scenario, its document and its figures: names and contents, to be written into one folder.
pub fn files(documents: &[Document]) -> Vec<(String, String)> {
    let mut files = vec![("index.html".to_owned(), page(documents))];
    files.extend(documents.iter().flat_map(files_of));
    files
}

/// What one scenario leaves behind: `NAME.json` and its figures, `NAME-1-spread.svg` and so on.
pub fn files_of(document: &Document) -> Vec<(String, String)> {
    let mut files = vec![(format!("{}.json", document.scenario), document.to_json())];
    for (index, figure) in document.figures.iter().enumerate() {
        if let Some(svg) = plot::draw(document, figure) {
            files.push((figure_name(document, index), svg));
        }
    }
    files
}

/// A sentence for each picture that was asked for and cannot be drawn.
pub fn undrawn(document: &Document) -> Vec<String> {
    let figures = document.figures.iter().enumerate();
    let missing = figures.filter(|(_, figure)| plot::draw(document, figure).is_none());
    missing
        .map(|(index, figure)| {
            let kind = format!("{:?}", figure.kind).to_lowercase();
            format!(
                "figure {} of {} is not drawn: this run has nothing that a {kind} figure shows",
                index + 1,
                document.scenario
            )
        })
        .collect()
}

fn figure_name(document: &Document, index: usize) -> String {
    let kind = format!("{:?}", document.figures[index].kind).to_lowercase();
    format!("{}-{}-{kind}.svg", document.scenario, index + 1)
}
