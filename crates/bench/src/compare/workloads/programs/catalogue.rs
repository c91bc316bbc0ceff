//! The programs, a row each.

/// What has to be there before a program can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// An executable in the path.
    Executable { name: &'static str, how: &'static str },
    /// A Python with this module in the folder of environments that is kept.
    Module(&'static str),
    /// `javac`, and a class that it made of `Maps.java`.
    Class,
    /// GNU sort, and a text of a million lines.
    Text,
    /// A source of many functions, and an executable that compiles it.
    Source { compiler: &'static str, how: &'static str },
}

/// A real program, its input and what it prints, which is the same on all sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
    /// For `sh -c`, in the folder with the scripts; `$PYTHON` is the interpreter.
    pub(super) command: &'static str,
    pub(super) has_threads: bool,
}

const fn program(name: &'static str, needs: Needs, command: &'static str, has_threads: bool) -> Program {
    Program {
        name,
        needs,
        command,
        has_threads,
    }
}

const fn executable(name: &'static str, how: &'static str) -> Needs {
    Needs::Executable { name, how }
}

/// In the order in which they are run.
pub(super) const PROGRAMS: [Program; 20] = [
    program(
        "node",
        executable("node", "apt-get install nodejs"),
        "exec node maps.js",
        true,
    ),
    program(
        "node-json",
        executable("node", "apt-get install nodejs"),
        "exec node names.js",
        true,
    ),
    program(
        "python",
        executable("python3", "apt-get install python3"),
        "exec \"$PYTHON\" dicts.py",
        false,
    ),
    program("sort", Needs::Text, "sort -S 600M --parallel=2 lines.txt | cksum", true),
    program(
        "java-serial",
        Needs::Class,
        "exec java -Xmx400M -XX:+UseSerialGC -cp . Maps",
        false,
    ),
    program(
        "java-parallel",
        Needs::Class,
        "exec java -Xmx400M -XX:+UseParallelGC -cp . Maps",
        true,
    ),
    program(
        "java-g1",
        Needs::Class,
        "exec java -Xmx400M -XX:+UseG1GC -cp . Maps",
        true,
    ),
    program(
        "sqlite",
        executable("sqlite3", "apt-get install sqlite3"),
        "exec sqlite3 :memory: <memory.sql",
        false,
    ),
    program(
        "awk",
        executable("awk", "apt-get install mawk"),
        "exec awk -f text.awk",
        false,
    ),
    program("numpy", Needs::Module("numpy"), "exec \"$PYTHON\" numpy_sort.py", true),
    program(
        "pandas",
        Needs::Module("pandas"),
        "exec \"$PYTHON\" pandas_merge.py",
        true,
    ),
    program(
        "sklearn",
        Needs::Module("sklearn"),
        "exec \"$PYTHON\" sklearn_forest.py",
        true,
    ),
    program("duckdb", Needs::Module("duckdb"), "exec \"$PYTHON\" duck.py", true),
    program(
        "c++",
        executable("g++", "apt-get install g++"),
        "g++ -O1 -fno-ident -S -o - regexes.cc | cksum",
        false,
    ),
    program(
        "rust",
        Needs::Source {
            compiler: "rustc",
            how: "install rustup",
        },
        "rustc --crate-type lib --emit metadata=rust.out many.rs && echo compiled",
        true,
    ),
    program(
        "go",
        Needs::Source {
            compiler: "go",
            how: "apt-get install golang",
        },
        "rm -rf go-cache; HOME=. GOCACHE=$PWD/go-cache GOFLAGS=-mod=mod go build -o go.out net/http && echo built",
        true,
    ),
    program(
        "luajit",
        executable("luajit", "apt-get install luajit"),
        "exec luajit maps.lua",
        false,
    ),
    program(
        "ocaml",
        executable("ocaml", "apt-get install ocaml-nox"),
        "exec ocaml lists.ml",
        false,
    ),
    program(
        "php",
        executable("php", "apt-get install php-cli"),
        "exec php arrays.php",
        false,
    ),
    program(
        "perl",
        executable("perl", "apt-get install perl"),
        "exec perl words.pl",
        false,
    ),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_are_unique_and_say_nothing_to_the_command_line() {
        let mut names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        assert!(names.iter().all(|name| !name.contains([',', '@', ':', ' '])));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROGRAMS.len());
    }
}
