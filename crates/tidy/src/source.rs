//! Rust source as the rules see it: code without comments and literals, words, functions.
//!
//! A scanner, not a parser: it knows where comments, strings and characters begin and end, and counts brackets.
//! That is enough for rules about lines, and it needs no dependency.

/// The source with every comment, string and character replaced by spaces; lines stay where they are.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
            continue;
        }
        code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself if none begins there.
fn literal_or_comment_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => line_end(chars, at),
        '/' if next == Some('*') => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        '\'' => char_end(chars, at),
        'r' | 'b' | 'c' if at == 0 || !is_word_char(chars[at - 1]) => prefixed_string_end(chars, at),
        _ => at,
    }
}

fn line_end(chars: &[char], at: usize) -> usize {
    (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len())
}

/// Block comments nest in Rust.
fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], first: usize) -> usize {
    let mut i = first;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `'x'` and `'\n'` are characters; `'a` in `&'a str` is a lifetime and stays.
fn char_end(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        // The character after the backslash may itself be a quote.
        return (at + 3..chars.len()).find(|&i| chars[i] == '\'').map_or(chars.len(), |i| i + 1);
    }
    if chars.get(at + 2) == Some(&'\'') { at + 3 } else { at }
}

/// `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#`, `c"…"`: the prefix is part of the literal. `r#name` is a name.
fn prefixed_string_end(chars: &[char], at: usize) -> usize {
    let prefix = chars[at..].iter().take(2).take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let hashes = chars[at + prefix..].iter().take_while(|&&c| c == '#').count();
    let quote = at + prefix + hashes;
    if chars.get(quote) != Some(&'"') {
        return at;
    }
    if chars[at + prefix - 1] != 'r' {
        return if hashes == 0 { string_end(chars, quote + 1) } else { at };
    }
    let closes = |i: &usize| chars[*i] == '"' && chars[i + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    (quote + 1..chars.len()).find(closes).map_or(chars.len(), |i| (i + 1 + hashes).min(chars.len()))
}

/// Whether `c` can stand inside a Rust name.
pub fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `needle` stands in `line` as whole words: `unsafe` is not found in `unsafe_code`, nor `rand::` in
/// `operand::`. An end of the needle that is no word character matches anywhere.
pub fn find_words(line: &str, needle: &str) -> Option<usize> {
    let opens_word = needle.chars().next().is_some_and(is_word_char);
    let closes_word = needle.chars().next_back().is_some_and(is_word_char);
    let stands_alone = |at: usize| {
        let before = line[..at].chars().next_back().is_some_and(is_word_char);
        let after = line[at + needle.len()..].chars().next().is_some_and(is_word_char);
        !(opens_word && before || closes_word && after)
    };
    line.match_indices(needle).map(|(at, _)| at).find(|&at| stands_alone(at))
}

/// How many lines stand before the inline test module, which is the last thing in a file.
pub fn lines_before_tests(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let opens_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// How many lines it has, from `fn` to the closing brace.
    pub lines: usize,
}

/// Every function of a file that has a body, nested ones too, in order of their `fn`.
pub fn functions(source: &str) -> Vec<Function> {
    let chars: Vec<char> = code_only(source).chars().collect();
    let mut found = Vec::new();
    let mut line = 1;
    for at in 0..chars.len() {
        if chars[at] == '\n' {
            line += 1;
        }
        if let Some((name, signature)) = named_fn(&chars, at)
            && let Some(end) = body_end(&chars, signature)
        {
            let lines = chars[at..end].iter().filter(|&&c| c == '\n').count() + 1;
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// The name of the function declared at `at` and where its signature goes on; `fn(u8)` is a type and has no name.
fn named_fn(chars: &[char], at: usize) -> Option<(String, usize)> {
    let is_keyword = chars[at..].starts_with(&['f', 'n'])
        && chars.get(at + 2).is_some_and(|c| c.is_whitespace())
        && (at == 0 || !is_word_char(chars[at - 1]));
    if !is_keyword {
        return None;
    }
    let start = (at + 2..chars.len()).find(|&i| !chars[i].is_whitespace())?;
    let name: String = chars[start..].iter().take_while(|&&c| is_word_char(c) || c == '#').collect();
    let signature = start + name.chars().count();
    (!name.is_empty()).then_some((name, signature))
}

/// Where the body after a signature ends; `None` for a declaration that ends with `;`.
fn body_end(chars: &[char], signature: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut body = None;
    for (i, c) in chars.iter().enumerate().skip(signature) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            // `[u8; 4]` in a signature does not end it.
            ';' if depth == 0 => return None,
            '{' if depth == 0 => {
                body = Some(i);
                break;
            }
            _ => {}
        }
    }
    let mut open = 0_usize;
    for (i, c) in chars.iter().enumerate().skip(body?) {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(i + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_vanish_and_lines_stay() {
        let code = code_only("a // b\n/* c /* d */ e\n f */ g\n/// doc\nh");

        assert_eq!(code.lines().map(str::trim).collect::<Vec<_>>(), ["a", "", "g", "", "h"]);
    }

    #[test]
    fn literals_vanish_and_lifetimes_stay() {
        let sample = r##"f("{ \" }", '{', '\'', b'}', r#"} " {"#, b"\"{", "é {", c"}"); &'a str; r#type"##;

        let code = code_only(sample);

        assert!(!code.contains(['{', '}', '"']), "{code}");
        assert!(code.contains("&'a str; r#type"), "{code}");
    }

    #[test]
    fn an_open_string_or_comment_ends_with_the_file() {
        assert_eq!(code_only("a \"b").trim(), "a");
        assert_eq!(code_only("a /* b").trim(), "a");
        assert_eq!(code_only("a r#\"b\"").trim(), "a");
        assert_eq!(code_only("a '\\").trim(), "a");
        assert_eq!(code_only("a \"\\").trim(), "a");
    }

    #[test]
    fn words_are_found_whole() {
        assert_eq!(find_words("#![forbid(unsafe_code)] unsafe {", "unsafe"), Some(24));
        assert_eq!(find_words("operand::new()", "rand::"), None);
        assert_eq!(find_words("x.exp() + rand::rng()", "rand::"), Some(10));
        assert_eq!(find_words("x.exp()", ".exp()"), Some(1));
    }

    #[test]
    fn code_ends_where_the_inline_tests_begin() {
        assert_eq!(lines_before_tests("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(lines_before_tests("#[cfg(test)]\nuse a::B;\nfn a() {}\n"), 3);
    }

    #[test]
    fn a_function_runs_from_its_fn_to_its_closing_brace() {
        let sample = "struct S;\n\nimpl S {\n    fn long(a: [u8; 2]) -> u8 {\n        // }\n        if true { 1 }\n        \
                      else { \"}\".len() }\n    }\n    fn short() {}\n}\n";

        let found = functions(sample);

        let seen: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(seen, [("long", 4, 5), ("short", 9, 1)]);
    }

    #[test]
    fn declarations_and_function_types_have_no_body() {
        assert_eq!(functions("trait T { fn a(&self) -> [u8; 2]; }\ntype F = fn(u8) -> u8;\nlet x = 1;"), []);
    }

    #[test]
    fn nested_functions_are_counted_too() {
        let found = functions("fn outer() {\n    fn inner() {\n    }\n}\n");

        let seen: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(seen, [("outer", 1, 4), ("inner", 2, 2)]);
    }
}
