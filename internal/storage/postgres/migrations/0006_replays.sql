-- A replay queues a new delivery cycle for each event that its filter matches, oldest first. Whoever works on one holds its row locked for
-- a step's transaction, in which the events are queued and examined_to moves: what is cut short was never done, and is done once.
-- tenant_id: null for all tenants. state: queued, running, completed, cancelled, failed. ends_before: an event's id; what was
-- received later is not replayed. skipped: amounts by cause. failures: steps in a row that failed.
CREATE TABLE replays (
  id text COLLATE "C" PRIMARY KEY,
  idempotency_key text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C",
  filter jsonb NOT NULL,
  rate_per_second smallint NOT NULL,
  requested_by text NOT NULL,
  state text NOT NULL,
  total_count integer NOT NULL,
  total_is_exact boolean NOT NULL,
  examined_to text COLLATE "C",
  ends_before text COLLATE "C" NOT NULL,
  queued_count integer NOT NULL DEFAULT 0,
  skipped jsonb NOT NULL DEFAULT '{}',
  is_waiting boolean NOT NULL DEFAULT false,
  failures smallint NOT NULL DEFAULT 0,
  failed_cause text,
  created_at timestamptz NOT NULL,
  started_at timestamptz,
  ended_at timestamptz,
  next_step_at timestamptz NOT NULL,
  UNIQUE NULLS NOT DISTINCT (tenant_id, idempotency_key)
);
CREATE INDEX replays_unfinished ON replays (next_step_at) WHERE state IN ('queued', 'running');
CREATE INDEX replays_tenant ON replays (tenant_id, id);
