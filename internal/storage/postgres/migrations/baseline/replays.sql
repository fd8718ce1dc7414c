-- A replay queues a new delivery cycle for each event that its filter matches, oldest first. Whoever works on one holds its row locked for
-- a step's transaction, in which the events are queued and examined_to moves: what is cut short was never done, and is done once.
-- tenant_id: null for all tenants. state: queued, running, completed, cancelled, failed. ends_before: an event's id; what was
-- received later is not replayed. skipped: amounts by cause. failures: steps in a row that failed.
-- queued: the first thousand events that a replay queued, each as its id, a colon and the number of the delivery cycle. notify_at: time from
-- which the tenant's owner can be notified that the replay has ended; null if there is no notification, or no further one.
-- outcome: result of the first thousand queued events, as last counted. count_at: when it is counted next; null for never.
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
  queued text[] NOT NULL DEFAULT '{}',
  notify_at timestamptz,
  outcome jsonb,
  count_at timestamptz DEFAULT now(),
  UNIQUE NULLS NOT DISTINCT (tenant_id, idempotency_key)
);
CREATE INDEX replays_unfinished ON replays (next_step_at) WHERE state IN ('queued', 'running');
CREATE INDEX replays_tenant ON replays (tenant_id, id);
CREATE INDEX replays_to_notify ON replays (notify_at) WHERE notify_at IS NOT NULL;
CREATE INDEX replays_to_count ON replays (count_at) WHERE ended_at IS NOT NULL AND count_at IS NOT NULL;
