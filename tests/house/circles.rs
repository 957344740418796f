//! No circles among the modules of a crate.
//!
//! ```text
//!   file ─▶ tokens ─▶ without tests ─▶ paths of `use` and of expressions ─▶ modules ─▶ circles
//! ```
//! A module uses another if it names it, or an item of it, through any number of re-exports. A module and its
//! own parts are one thing in several files, so it may use them and they may use it; the parts among each other
//! may not go in a circle, nor may a way lead from a module through its parts and out to others, and back. The
//! crate's root names every module, and is no part of a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{files, root};

/// Circles that stay, each by its modules and its reason.
const ALLOWED: &[(&str, &[&str], &str)] = &[];

/// A module's path in its crate; the root's is empty.
type Module = Vec<String>;

/// A file's references to other modules.
#[derive(Default)]
struct File {
    /// Names that it imports, and the paths that they stand for.
    imports: BTreeMap<String, Vec<String>>,
    /// Every path in it.
    paths: Vec<Vec<String>>,
    /// Its modules of tests in files of their own.
    tests: BTreeSet<String>,
}

/// Names, `::` and single signs; no comments, texts and lifetimes.
fn tokens(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let until = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len());
        let name = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let hashes = rest[name..].len() - rest[name..].trim_start_matches('#').len();
        at += match c {
            '/' if rest.starts_with("//") => until("\n", 0),
            '/' if rest.starts_with("/*") => until("*/", 2),
            'r' | 'b' | 'c' if matches!(&rest[..name], "r" | "br" | "cr") && rest[name + hashes..].starts_with('"') => {
                until(&format!("\"{}", "#".repeat(hashes)), name + hashes + 1)
            }
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            '\'' if rest[1..].starts_with('\\') => until("'", 3),
            '\'' => match rest[1..].chars().next().map_or(1, char::len_utf8) {
                len if rest[1 + len..].starts_with('\'') => len + 2,
                _ => 1 + rest[1..].find(|c| !is_name(c)).unwrap_or(0),
            },
            _ if name > 0 => {
                found.push(&rest[..name]);
                name
            }
            ':' if rest.starts_with("::") => {
                found.push("::");
                2
            }
            _ => {
                if !c.is_whitespace() {
                    found.push(&rest[..c.len_utf8()]);
                }
                c.len_utf8()
            }
        };
    }
    found
}

/// Number of tokens up to the end of the first bracket, or up to a `;` before it.
fn item(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(*token, "}" | ";") {
            return at + 1;
        }
    }
    tokens.len()
}

/// The end of an attribute that begins here.
fn attribute(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        depth += i32::from(*token == "[") - i32::from(*token == "]");
        if depth == 0 && *token == "]" {
            return at + 1;
        }
    }
    tokens.len()
}

fn read(text: &str) -> File {
    let all = tokens(text);
    let (mut file, mut at) = (File::default(), 0);
    while at < all.len() {
        let rest = &all[at..];
        at += match rest {
            ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                let mut end = attribute(rest);
                while rest[end..].starts_with(&["#", "["]) {
                    end += attribute(&rest[end..]);
                }
                let length = item(&rest[end..]);
                if let [.., "mod", name, ";"] = rest[end..end + length] {
                    file.tests.insert(name.to_owned());
                }
                end + length
            }
            ["use", ..] => {
                let length = rest.iter().position(|token| *token == ";").unwrap_or(rest.len() - 1) + 1;
                imports(&rest[1..length - 1], &[], &mut file);
                length
            }
            [name, "::", ..] if is_word(name) && (at == 0 || all[at - 1] != "::") => {
                let mut path = vec![(*name).to_owned()];
                path.extend(rest[1..].chunks(2).map_while(|two| match two {
                    ["::", next] if is_word(next) => Some((*next).to_owned()),
                    _ => None,
                }));
                let length = 2 * path.len() - 1;
                file.paths.push(path);
                length
            }
            _ => 1,
        };
    }
    file
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The paths of a tree of imports.
fn imports(tree: &[&str], before: &[&str], file: &mut File) {
    let head: Vec<&str> = tree.iter().copied().take_while(|token| *token != "{").filter(|token| *token != "::").collect();
    if let Some(open) = tree.iter().position(|token| *token == "{") {
        let (inside, before) = (&tree[open + 1..tree.len() - 1], [before, &head].concat());
        let mut depth = 0;
        let parts = inside.split(|token| {
            depth += i32::from(*token == "{") - i32::from(*token == "}");
            depth == 0 && *token == ","
        });
        parts.filter(|part| !part.is_empty()).for_each(|part| imports(part, &before, file));
        return;
    }
    let (path, name) = match head[..] {
        [ref path @ .., "as", name] => (path, Some(name)),
        _ => (&head[..], None),
    };
    let mut path: Vec<String> = before.iter().chain(path).map(|part| (*part).to_owned()).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = name.map(str::to_owned).or_else(|| path.last().cloned()) {
        file.imports.insert(name, path.clone());
    }
    file.paths.push(path);
}

/// The module that has the item that a path of `from` names, if it is in this crate.
fn resolve(crate_: &BTreeMap<Module, File>, from: &Module, path: &[String], depth: u32) -> Option<Module> {
    let is_module = |of: &[String], name: &String| crate_.contains_key(&[of, std::slice::from_ref(name)].concat());
    let (first, mut rest) = (path.first()?, &path[1..]);
    let mut at = match first.as_str() {
        "crate" => Module::new(),
        "self" => from.clone(),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            rest = &path[ups..];
            from[..from.len().checked_sub(ups)?].to_vec()
        }
        _ if is_module(from, first) => {
            rest = path;
            from.clone()
        }
        _ => {
            let import = crate_[from].imports.get(first).filter(|import| depth < 8 && !rest.is_empty() && import[..] != *path)?;
            return resolve(crate_, from, &[import, rest].concat(), depth + 1);
        }
    };
    while let [name, after @ ..] = rest
        && is_module(&at, name)
    {
        at.push(name.clone());
        rest = after;
    }
    match rest.first().and_then(|name| crate_[&at].imports.get(name)) {
        // Exported again: it belongs to whoever has it, which may be another crate.
        Some(import) if depth < 8 => resolve(crate_, &at, import, depth + 1),
        _ => Some(at),
    }
}

/// Every module that this one uses, by whatever way round.
fn reach<'a>(uses: &'a BTreeMap<&Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<&'a Module> {
    let mut seen: BTreeSet<&Module> = uses[from].iter().collect();
    let mut open: Vec<&Module> = seen.iter().copied().collect();
    while let Some(module) = open.pop() {
        open.extend(uses[module].iter().filter(|used| seen.insert(*used)));
    }
    seen
}

/// Groups of modules each of which uses the others, by whatever way round; `may` leaves out some of the uses.
fn groups(crate_: &BTreeMap<Module, File>, may: impl Fn(&Module, &Module) -> bool) -> BTreeSet<BTreeSet<&Module>> {
    let uses: BTreeMap<&Module, BTreeSet<Module>> = crate_
        .iter()
        .map(|(module, file)| {
            let used = file.paths.iter().filter_map(|path| resolve(crate_, module, path, 0));
            (module, used.filter(|used| used != module && may(module, used)).collect())
        })
        .collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = crate_.keys().map(|module| (module, reach(&uses, module))).collect();
    let of = |module: &&Module| -> BTreeSet<&Module> {
        reached[*module]
            .iter()
            .filter(|other| reached[**other].contains(*module))
            .map(|other| crate_.get_key_value(*other).unwrap().0)
            .collect()
    };
    let all: BTreeSet<BTreeSet<&Module>> = crate_.keys().map(|module| of(&module)).collect();
    all.into_iter().filter(|group| group.len() > 1).collect()
}

/// The circles among modules: those that need no use of a module's own parts, and those that lead through such uses beyond a
/// module and its parts.
fn circles(crate_: &BTreeMap<Module, File>) -> BTreeSet<BTreeSet<&Module>> {
    let apart = groups(crate_, |module, used| !used.starts_with(module));
    let whole = groups(crate_, |module, _| !module.is_empty());
    // If one module has all the others as parts, it is the first in order.
    let beyond = |group: &BTreeSet<&Module>| group.first().is_some_and(|first| group.iter().any(|part| !part.starts_with(first)));
    let mut found: BTreeSet<BTreeSet<&Module>> = whole.into_iter().filter(beyond).collect();
    // A circle within a larger one is told with it.
    let new: Vec<_> = apart.into_iter().filter(|circle| !found.iter().any(|larger| circle.is_subset(larger))).collect();
    found.extend(new);
    found
}

/// The modules of a crate by its files, those of tests left out.
fn modules<'a>(sources: impl Iterator<Item = (&'a Path, String)>) -> BTreeMap<Module, File> {
    let module = |path: &Path| -> Module {
        let mut parts: Module = path.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] || parts == ["main"] {
            parts.pop();
        }
        parts
    };
    let mut all: BTreeMap<Module, File> = sources.map(|(path, text)| (module(path), read(&text))).collect();
    let tests: Vec<Module> = all
        .iter()
        .flat_map(|(module, file)| file.tests.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat()))
        .collect();
    all.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    all
}

#[test]
fn modules_use_each_other_in_no_circle() {
    let mut broken = Vec::new();
    for folder in fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path()) {
        let (name, source) = (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder.join("src"));
        let rust: Vec<_> = files(&source).into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs")).collect();
        let crate_ = modules(rust.iter().map(|file| (file.strip_prefix(&source).unwrap(), fs::read_to_string(file).unwrap())));
        let text = |circle: &BTreeSet<&Module>| circle.iter().map(|module| module.join("::")).collect::<Vec<_>>();
        let is_allowed = |circle: &Vec<String>| ALLOWED.iter().any(|(of, modules, _)| *of == name && circle == modules);
        let found: Vec<_> = circles(&crate_).iter().map(text).filter(|circle| !is_allowed(circle)).collect();
        if !found.is_empty() {
            broken.push(format!("hairpin-{name}: {found:?}"));
        }
    }
    assert!(ALLOWED.len() <= 1, "one circle at most may stay");
    assert_eq!(broken, Vec::<String>::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<Vec<String>> {
        let crate_ = modules(sources.iter().map(|(path, text)| (Path::new(*path), (*text).to_owned())));
        circles(&crate_).iter().map(|circle| circle.iter().map(|module| module.join("::")).collect()).collect()
    }

    #[test]
    fn finds_circles_by_imports_paths_and_reexports() {
        let root = ("lib.rs", "mod a; mod b; pub use b::Thing;");
        assert_eq!(found(&[root, ("a.rs", "use crate::b::{self, Thing};"), ("b.rs", "use super::a;")]), [["a", "b"]]);
        assert_eq!(found(&[root, ("a.rs", "fn f() { crate::b::g::<u8>() }"), ("b.rs", "type T = super::a::T;")]), [["a", "b"]]);
        assert_eq!(found(&[root, ("a.rs", "use crate::Thing;"), ("b.rs", "use crate::a::f;")]), [["a", "b"]]);
        assert_eq!(found(&[root, ("a.rs", "use crate::b;\nfn f() { b::g() }"), ("b.rs", "")]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn finds_circles_that_lead_through_parts() {
        let root = ("lib.rs", "mod a; mod c;");
        let through = [
            root,
            ("a.rs", "mod b;\nuse b::f;\npub struct T;"),
            ("a/b.rs", "use crate::c::g;\npub fn f() {}"),
            ("c.rs", "use crate::a::T;"),
        ];
        assert_eq!(found(&through), [["a", "a::b", "c"]]);
        let to_the_part = [root, through[1], ("a/b.rs", "pub fn f() {}"), ("c.rs", "use crate::a::b::f;")];
        assert_eq!(found(&to_the_part), Vec::<Vec<String>>::new());
        let parts = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use {b::f, c::g};"),
            ("a/b.rs", "use super::c::g;"),
            ("a/c.rs", "use super::b::f;"),
        ];
        assert_eq!(found(&parts), [["a::b", "a::c"]]);
    }

    #[test]
    fn tests_texts_comments_and_own_parts_make_no_circle() {
        let root = ("lib.rs", "mod a; mod b;");
        for b in [
            "#[cfg(test)]\nmod tests { use crate::a; }",
            "#[cfg(test)] use crate::a::f;",
            "// crate::a::f\n/* crate::a */ const T: &str = \"crate::a::f\"; const R: &str = r#\"crate::a::f \"#; const C: char = '\"';",
        ] {
            assert_eq!(found(&[root, ("a.rs", "use crate::b;"), ("b.rs", b)]), Vec::<Vec<String>>::new(), "{b}");
        }
        let parts = [("lib.rs", "mod a;"), ("a.rs", "mod b; use b::f; pub struct T;"), ("a/b.rs", "use super::T;")];
        assert_eq!(found(&parts), Vec::<Vec<String>>::new());
        let apart = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)]\nmod t;"),
            ("a/t.rs", "use crate::b;"),
            ("b.rs", "use crate::a::x;"),
        ];
        assert_eq!(found(&apart), Vec::<Vec<String>>::new());
    }
}
