-- What several processes share beside the log: published states, leases, learner workers, and the order of events.
CREATE TABLE rankloop_published (entity TEXT PRIMARY KEY, number BIGINT NOT NULL, seq BIGINT NOT NULL,
                                 rejected BIGINT NOT NULL, session BYTEA NOT NULL, projection BYTEA NOT NULL,
                                 fence BIGINT NOT NULL);
CREATE TABLE rankloop_leases (partition INT PRIMARY KEY, holder TEXT NOT NULL, fence BIGINT NOT NULL,
                              until TIMESTAMPTZ NOT NULL);
CREATE TABLE rankloop_learners (holder TEXT PRIMARY KEY, since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL);
CREATE TABLE rankloop_order (epoch BIGINT NOT NULL);
