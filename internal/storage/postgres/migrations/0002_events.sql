-- Events and what is known of their delivery. Tables whose rows expire are partitioned by the day on which a row may go, so that
-- retention drops tables instead of deleting rows. There is no DEFAULT partition: a missing day is made by whoever needs it.
-- An event's id tells its day of receipt and how many days it is kept, so that its partition is known without a lookup.

-- Narrow and unpartitioned, since only such a unique index is truly unique. key: the first 16 bytes of a SHA-256 over tenant,
-- provider and the provider's event id. Lives as long as its event, at least 7 days.
CREATE TABLE dedupe_keys (
  key uuid PRIMARY KEY,
  event_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL
);
CREATE INDEX dedupe_keys_expiry ON dedupe_keys (expires_on);

-- state: accepted (a delivery cycle is under way or waits), processed, delivery_failed, verified (stored, not to be
-- delivered). It and what follows it are the only columns that change, none of them indexed, so that a change stays in its page.
CREATE TABLE events (
  id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  provider text COLLATE "C" NOT NULL,
  source_event_id text NOT NULL,
  raw_type text NOT NULL,
  type text COLLATE "C" NOT NULL,
  occurred_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  headers text NOT NULL,
  payload_bytes integer NOT NULL,
  payload_expires_on date NOT NULL,
  state text NOT NULL,
  cycle smallint NOT NULL,
  completed_at timestamptz,
  PRIMARY KEY (id, expires_on)
) PARTITION BY RANGE (expires_on);
-- Ids grow with time, so this is also the order of receipt: each index serves a list, newest first, by what stands before the id.
-- There is none on state, since events change it: with one, every completion would have to write all of these. What failed has a
-- table of its own.
CREATE INDEX events_tenant ON events (tenant_id, id);
CREATE INDEX events_type ON events (type, id);
CREATE INDEX events_provider ON events (provider, id);
CREATE INDEX events_tenant_type ON events (tenant_id, type, id);
CREATE INDEX events_tenant_provider ON events (tenant_id, provider, id);

-- Apart from events, since payloads go sooner.
CREATE TABLE event_payloads (
  event_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (event_id, expires_on)
) PARTITION BY RANGE (expires_on);

-- What the lists show of the events whose last delivery cycle failed, written with that state and gone with the next delivery cycle. Not
-- partitioned, and whole in the index of a tenant, so that a first look at a tenant's failures reads some pages of one index
-- instead of a page of each day and of each event. Bounds on texts keep an entry below what an index takes (2 704 bytes).
CREATE TABLE failed_events (
  id text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  provider text COLLATE "C" NOT NULL,
  source_event_id text NOT NULL,
  raw_type text NOT NULL,
  type text COLLATE "C" NOT NULL,
  occurred_at timestamptz NOT NULL,
  payload_bytes integer NOT NULL,
  payload_expires_on date NOT NULL,
  cycle smallint NOT NULL,
  completed_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id) INCLUDE (expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
    payload_expires_on, cycle, completed_at)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX failed_events_id ON failed_events (id);
CREATE INDEX failed_events_expiry ON failed_events (expires_on);

-- Every call to a callback that had an end. answer: at most 16 KiB of what came back. cause: why there was no answer.
CREATE TABLE attempts (
  event_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  cycle smallint NOT NULL,
  attempt smallint NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms integer NOT NULL,
  outcome text NOT NULL,
  status smallint,
  cause text,
  answer text,
  PRIMARY KEY (event_id, cycle, attempt, expires_on)
) PARTITION BY RANGE (expires_on);

-- Calls that were refused, for tenants to see why. sample: at most 1 KiB of a body whose signature failed.
CREATE TABLE refused_calls (
  id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  provider text NOT NULL,
  cause text NOT NULL,
  refused_at timestamptz NOT NULL,
  source_address text,
  headers text NOT NULL,
  sample text,
  PRIMARY KEY (id, expires_on)
) PARTITION BY RANGE (expires_on);
CREATE INDEX refused_calls_tenant ON refused_calls (tenant_id, id);

-- Incomplete deliveries only, one row an event. due_at: when it may be claimed. leased_until: nobody else claims it before, so that a
-- crashed worker's rows come back by themselves. claims counts takings since the last completed attempt and, with lease, tells a late
-- worker that its row was taken over. A claim changes no indexed column, and each page has room for a second version of all its
-- rows, which are longer by the lease: so a claim writes no index.
CREATE TABLE deliveries_due (
  event_id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  payload_expires_on date NOT NULL,
  payload_bytes integer NOT NULL,
  cycle smallint NOT NULL,
  attempts smallint NOT NULL DEFAULT 0,
  claims smallint NOT NULL DEFAULT 0,
  is_retry boolean NOT NULL DEFAULT false,
  due_at timestamptz NOT NULL,
  lease text,
  leased_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (
  fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
CREATE INDEX deliveries_due_tenant ON deliveries_due (tenant_id, is_retry, due_at);

-- One row a tenant that ever had work. next_due_at: when to look next, 'infinity' for never; it may be too early, and what makes
-- it too late is found by the sweep. idle_checks counts looks in a row that found nothing.
-- breaker_until: '-infinity' while closed; in the future while open; in the past: half open, one delivery at a time tries it.
-- suspended_at: the callback asked to be left alone, and nothing is sent until somebody resumes it.
CREATE TABLE tenant_queues (
  tenant_id text COLLATE "C" PRIMARY KEY,
  next_due_at timestamptz NOT NULL,
  idle_checks smallint NOT NULL DEFAULT 0,
  last_served_at timestamptz NOT NULL DEFAULT '-infinity',
  breaker_until timestamptz NOT NULL DEFAULT '-infinity',
  suspended_at timestamptz,
  suspended_cause text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX tenant_queues_next_due ON tenant_queues (next_due_at) WHERE suspended_at IS NULL;
CREATE INDEX tenant_queues_suspended ON tenant_queues (tenant_id) WHERE suspended_at IS NOT NULL;
