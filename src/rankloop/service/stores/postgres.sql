-- The longer statements of the log in PostgreSQL, by the names under which `postgres.py` executes them.

-- set_durable
-- remote_apply is more than on
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') <> 'remote_apply';

-- select_impressions
SELECT e.seq, e.entity, e.at, e.body
    FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS k (entity, name, after)
    JOIN rankloop_events e ON e.impression = k.name AND (e.entity || '') = k.entity AND e.seq > k.after
    ORDER BY e.seq;

-- select_last_changes
SELECT entity, max(seq) FROM rankloop_events
    WHERE entity = ANY(%s) AND impression IS NULL AND kind <> 'snapshotted' GROUP BY entity;

-- upsert_published
INSERT INTO rankloop_published (entity, number, seq, rejected, session, projection, fence)
    SELECT *, %s FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[])
    ON CONFLICT (entity) DO UPDATE
    SET number = excluded.number, seq = excluded.seq, rejected = excluded.rejected, session = excluded.session,
        projection = excluded.projection, fence = excluded.fence
    WHERE rankloop_published.seq < excluded.seq AND rankloop_published.fence <= excluded.fence;

-- update_counts
UPDATE rankloop_published SET seq = %s, projection = %s
    WHERE entity = %s AND seq < %s AND number = %s;

-- upsert_leases
INSERT INTO rankloop_leases AS l (partition, holder, fence, until)
    SELECT number, %s, 1, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::int[]) AS number
    WHERE NOT EXISTS (SELECT 1 FROM rankloop_leases h
                      WHERE h.partition = number AND h.holder <> %s AND h.until >= clock_timestamp())
    ON CONFLICT (partition) DO UPDATE
    SET fence = CASE WHEN l.holder = excluded.holder THEN l.fence ELSE l.fence + 1 END,
        holder = excluded.holder, until = excluded.until
    WHERE l.holder = excluded.holder OR l.until < clock_timestamp() RETURNING partition, fence;

-- take_lease
UPDATE rankloop_leases SET holder = ?, fence = fence + 1,
    until = clock_timestamp() + make_interval(secs => ?) WHERE partition = ?;

-- upsert_learner
INSERT INTO rankloop_learners AS l (holder, since, until)
    VALUES (%s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (holder) DO UPDATE SET until = excluded.until,
    since = CASE WHEN l.until < clock_timestamp() THEN excluded.since ELSE l.since END;

-- select_learners
SELECT l.holder, array_remove(array_agg(h.partition), NULL),
    extract(epoch FROM clock_timestamp() - l.since)::float8
    FROM rankloop_learners l LEFT JOIN rankloop_leases h ON h.holder = l.holder AND h.until >= clock_timestamp()
    WHERE l.until >= clock_timestamp() GROUP BY l.holder ORDER BY l.holder;
