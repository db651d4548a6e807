"""The tables of the file."""

VERSION = 1
"""Of the tables. A file of another version is refused: raise it whenever they change."""

APPLICATION_ID = 0x45766E66
"""What says that a file is one of these: `Evnf`."""

# A response has a number here, so that the index of its chunks stays small: it is written to most.
TABLES = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    response_id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    starts TEXT NOT NULL,
    polls INTEGER NOT NULL DEFAULT 0,
    hand_overs INTEGER NOT NULL DEFAULT 0,
    handed_over_epoch INTEGER,
    ending TEXT
) STRICT;
CREATE INDEX unfinished_responses ON responses (owner) WHERE ending IS NULL;
CREATE INDEX expiring_responses ON responses (expires_at);

CREATE TABLE chunks (
    response INTEGER NOT NULL REFERENCES responses ON DELETE CASCADE,
    last_index INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first_index INTEGER NOT NULL,
    began_at REAL NOT NULL,
    entries TEXT NOT NULL,
    UNIQUE (response, last_index, epoch, first_index)
) STRICT;

CREATE TABLE leases (
    owner TEXT PRIMARY KEY,
    owned_until REAL NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0,
    address TEXT,
    process TEXT,
    expires_at REAL NOT NULL
) STRICT;

CREATE TABLE sessions (
    channel TEXT PRIMARY KEY,
    last_message_id TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT;
CREATE INDEX expiring_sessions ON sessions (expires_at);

CREATE TABLE messages (
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    previous_message_id TEXT,
    text TEXT NOT NULL,
    response_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    answer TEXT,
    ended INTEGER NOT NULL,
    replaces TEXT,
    terms TEXT NOT NULL,
    kind TEXT NOT NULL,
    text_name TEXT,
    expires_at REAL NOT NULL,
    UNIQUE (channel, message_id)
) STRICT;
CREATE INDEX expiring_messages ON messages (expires_at);

CREATE TABLE large_texts (
    name TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT;
CREATE INDEX expiring_large_texts ON large_texts (expires_at);

CREATE TABLE dead_letters (
    response_id TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    message_id TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

CREATE TABLE signing_key (secret TEXT NOT NULL) STRICT;
"""

EXPIRING = ("responses", "leases", "sessions", "messages", "large_texts", "dead_letters")
"""The tables whose rows have `expires_at`."""
