-- The log: events and snapshots. The type names in braces are those of the database.
CREATE TABLE rankloop_events (seq {integer} PRIMARY KEY, entity TEXT NOT NULL, at {real} NOT NULL, impression TEXT,
                              body {binary} NOT NULL, kind TEXT NOT NULL{partition});
CREATE INDEX rankloop_events_by_entity ON rankloop_events (entity, seq);
CREATE INDEX rankloop_events_by_impression ON rankloop_events (impression) WHERE impression IS NOT NULL;
CREATE INDEX rankloop_changes ON rankloop_events (entity, seq) WHERE impression IS NULL;
CREATE TABLE rankloop_snapshots (entity TEXT NOT NULL, number {integer} NOT NULL, at {real} NOT NULL,
                                 state_seq {integer} NOT NULL, session {binary} NOT NULL,
                                 projection {binary} NOT NULL, rejected {integer} NOT NULL,
                                 oldest_open {integer} NOT NULL, PRIMARY KEY (entity, number));
