-- A simulation brings a made-up dispute's events in, one after the other, each when it is due, as if the provider had called.
-- state: scheduled, running, completed, cancelled, failed. request: what was asked for, defaults filled in. due_at: when each event
-- is due; sent_at: when each of those that came in did, so its length tells which one is next. next_at: when the next one may be
-- taken, null once the simulation has ended; while lease is set, when the lease ends, so that a crashed worker's row becomes due by
-- itself. failures: tries in a row that found no store. cause: why it failed, or what it waits for.
CREATE TABLE simulations (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  request jsonb NOT NULL,
  requested_by text NOT NULL,
  state text NOT NULL,
  due_at timestamptz[] NOT NULL,
  sent_at timestamptz[] NOT NULL DEFAULT '{}',
  next_at timestamptz,
  lease text,
  failures smallint NOT NULL DEFAULT 0,
  cause text,
  created_at timestamptz NOT NULL,
  started_at timestamptz,
  ended_at timestamptz,
  expires_on date NOT NULL
);
CREATE UNIQUE INDEX simulations_idempotency ON simulations (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX simulations_tenant ON simulations (tenant_id, id);
CREATE INDEX simulations_open ON simulations (tenant_id) WHERE ended_at IS NULL;
CREATE INDEX simulations_next ON simulations (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX simulations_expiry ON simulations (expires_on) WHERE ended_at IS NOT NULL;
