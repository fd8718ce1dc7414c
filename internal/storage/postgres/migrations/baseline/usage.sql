-- Absolute amounts: a flush that is repeated changes nothing. durable_amount: locks of records in Postgres, beside those in Redis (amount).
-- They are in record_hours for two days before. An hour's row is written often, and its hour never changes, so that the index is written
-- once a row.
CREATE TABLE usage_hourly (
  tenant_id text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  hour timestamptz NOT NULL,
  amount bigint NOT NULL DEFAULT 0,
  durable_amount bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, meter, hour)
);
CREATE INDEX usage_hourly_hour ON usage_hourly (hour);

-- One row that counts changes of overrides. It is raised inside each writing transaction, whose row lock lasts until the commit:
-- writers go one after the other, and a reader that sees another number than its own reads all overrides again.
CREATE TABLE limit_overrides_version (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version bigint NOT NULL
);
INSERT INTO limit_overrides_version (version) VALUES (0);

-- Hard limits that hold for a time in place of the tenant's own; hard null: none. A row whose time is over means nothing, and
-- goes with the next write of any.
CREATE TABLE limit_overrides (
  tenant_id text COLLATE "C" NOT NULL,
  limit_name text COLLATE "C" NOT NULL,
  hard bigint,
  until timestamptz NOT NULL,
  reason text NOT NULL,
  set_at timestamptz NOT NULL,
  set_by text NOT NULL,
  PRIMARY KEY (tenant_id, limit_name)
);

-- Usage that other systems reported, by their own ids: its amount is in usage_hourly, added in the same statement. decision: of the
-- guardrail that counted the usage (allow, warn), for its repeats; null: reported, not decided.
CREATE TABLE usage_emissions (
  tenant_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  hour timestamptz NOT NULL,
  amount bigint NOT NULL,
  recorded_at timestamptz NOT NULL,
  decision text,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX usage_emissions_age ON usage_emissions (recorded_at);

-- What happened, counted by tenant and time, so that a chart reads a few thousand rows at most however many events there are. Every
-- process adds what it counted. at: when the minute or hour began. tenant_id: '' is the installation as a whole.
-- refused_by: calls by cause, absent where there was none. latency_…: events that arrived within so many ms of their receipt and
-- not within the bound before; latency_over: later than all bounds.
-- No indexed column changes, and pages have room, so that adding to a row stays in its page and writes no index.
CREATE TABLE stats_minutely (
  tenant_id text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  accepted integer NOT NULL,
  duplicates integer NOT NULL,
  spooled integer NOT NULL,
  refused integer NOT NULL,
  delivered integer NOT NULL,
  failed integer NOT NULL,
  attempts_failed integer NOT NULL,
  latency_10 integer NOT NULL,
  latency_25 integer NOT NULL,
  latency_50 integer NOT NULL,
  latency_100 integer NOT NULL,
  latency_250 integer NOT NULL,
  latency_500 integer NOT NULL,
  latency_1000 integer NOT NULL,
  latency_2500 integer NOT NULL,
  latency_5000 integer NOT NULL,
  latency_15000 integer NOT NULL,
  latency_60000 integer NOT NULL,
  latency_300000 integer NOT NULL,
  latency_3600000 integer NOT NULL,
  latency_over integer NOT NULL,
  refused_by jsonb,
  PRIMARY KEY (tenant_id, at)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX stats_minutely_at ON stats_minutely (at);

CREATE TABLE stats_hourly (LIKE stats_minutely, PRIMARY KEY (tenant_id, at))
WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX stats_hourly_at ON stats_hourly (at);

-- The queue of deliveries as it was seen in a minute, at its worst.
CREATE TABLE stats_queue (
  at timestamptz PRIMARY KEY,
  due_count integer NOT NULL,
  oldest_age_ms bigint NOT NULL
);

-- The last batch that each process added: the same one again, after an answer that was lost, adds nothing.
CREATE TABLE stats_writers (
  writer text COLLATE "C" PRIMARY KEY,
  turn bigint NOT NULL,
  written_at timestamptz NOT NULL
);
CREATE INDEX stats_writers_age ON stats_writers (written_at);
