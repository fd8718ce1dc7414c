-- A step of its own, so that intake does not wait for the new index. origin: null where a version wrote the entry that does not copy the
-- column, so that only the event tells; hence no default for new rows. It is part of the index that serves lists; origin_by is not,
-- since it could exceed what an index takes.
ALTER TABLE failed_events ADD COLUMN origin text DEFAULT 'provider';
ALTER TABLE failed_events ALTER COLUMN origin DROP DEFAULT;
ALTER TABLE failed_events DROP CONSTRAINT failed_events_pkey, ADD CONSTRAINT failed_events_pkey PRIMARY KEY (tenant_id, id)
  INCLUDE (expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes, payload_expires_on, cycle, completed_at,
    origin);
