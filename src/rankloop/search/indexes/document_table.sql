-- The documents of an index, their texts, their words as they are written, and facts about the index.
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, at REAL NOT NULL,
    title BLOB NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
    number INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS words (word TEXT NOT NULL, stem TEXT NOT NULL, PRIMARY KEY (word, stem)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
