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
-- delivered). It, cycle and completed_at are the only columns that change, none of them indexed, so that a change stays in its page.
-- over_limit: received over the month's hard limit, where the tenant's are accepted nevertheless. origin: provider (a provider called),
-- service (another service ingested it), simulation, test (a test of the callback), notification. origin_by: the actor of service and
-- test, the id of a simulation. stored_by: transaction that stored the event, so that a tenant's events can be read in an order to which
-- commits only append: below the lowest transaction in progress no event can be added.
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
  over_limit boolean NOT NULL DEFAULT false,
  origin text NOT NULL DEFAULT 'provider',
  origin_by text,
  stored_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
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
CREATE INDEX events_feed ON events (tenant_id, stored_by, id);

-- Apart from events, since payloads go sooner.
CREATE TABLE event_payloads (
  event_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (event_id, expires_on)
) PARTITION BY RANGE (expires_on);

-- Deliveries whose last delivery cycle failed, with what the lists show of their events; written with that state and deleted by the next
-- delivery cycle. id: of the event. Not partitioned, and whole in the index of a tenant, so that a first look at a tenant's failures reads some pages of one index
-- instead of a page of each day and of each event. Bounds on texts keep an entry below what an index takes (2 704 bytes).
CREATE TABLE failed_deliveries (
  id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
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
  origin text NOT NULL,
  PRIMARY KEY (tenant_id, id, destination) INCLUDE (expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
    payload_expires_on, cycle, completed_at, origin)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX failed_deliveries_id ON failed_deliveries (id);
CREATE INDEX failed_deliveries_expiry ON failed_deliveries (expires_on);

-- Calls to destinations that have ended. answer: at most 16 KiB of the response. cause: why there was no response. exchange: request, timing
-- and response headers as JSON text, without bodies, signatures and credentials: usually 300 to 600 bytes, with at most 32 headers of
-- 4 096 characters together. One text column, since it is read as a whole and the statement that completes deliveries pays for each column.
-- Null where no call was made.
CREATE TABLE attempts (
  event_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
  expires_on date NOT NULL,
  cycle smallint NOT NULL,
  attempt smallint NOT NULL,
  started_at timestamptz NOT NULL,
  duration_ms integer NOT NULL,
  outcome text NOT NULL,
  status smallint,
  cause text,
  answer text,
  exchange text,
  PRIMARY KEY (event_id, destination, cycle, attempt, expires_on)
) PARTITION BY RANGE (expires_on);

-- Deliveries that are not completed, one row per event and destination. due_at: when it may be claimed. leased_until: no other process
-- claims it before, so that a crashed worker's rows come back by themselves. claims counts takings since the last completed attempt and, with lease, tells a late
-- worker that its row was taken over. A claim changes no indexed column, and each page has room for a second version of all its
-- rows, which are longer by the lease: so a claim writes no index.
CREATE TABLE deliveries_due (
  event_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
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
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (event_id, destination)
) WITH (
  fillfactor = 45, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
-- The expression is the id of the tenant queue. Two columns would let Postgres find rows of a queue by the destination in the primary key.
CREATE INDEX deliveries_due_queue ON deliveries_due ((tenant_id || '/' || destination), is_retry, due_at);

-- One row per destination of a tenant that ever had work. next_due_at: when to look next, 'infinity' for never; it may be too early, and
-- what makes it too late is found by the sweep. idle_checks counts looks in a row that found nothing.
-- breaker_until: '-infinity' while closed; in the future while open; in the past: half open, one delivery at a time tries it.
-- suspended_at: the destination asked for no further deliveries, and nothing is sent until it is resumed.
CREATE TABLE tenant_queues (
  tenant_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
  next_due_at timestamptz NOT NULL,
  idle_checks smallint NOT NULL DEFAULT 0,
  last_served_at timestamptz NOT NULL DEFAULT '-infinity',
  breaker_until timestamptz NOT NULL DEFAULT '-infinity',
  suspended_at timestamptz,
  suspended_cause text,
  PRIMARY KEY (tenant_id, destination)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX tenant_queues_next_due ON tenant_queues (next_due_at) WHERE suspended_at IS NULL;
CREATE INDEX tenant_queues_suspended ON tenant_queues (tenant_id, destination) WHERE suspended_at IS NOT NULL;

-- Accepted events without a delivery, which wait until a subscription acknowledges them: their tenant had no callback when they were
-- received. An accepted event has a row either here or in deliveries_due.
CREATE TABLE pulls_due (
  event_id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  expires_on date NOT NULL
);
CREATE INDEX pulls_due_tenant ON pulls_due (tenant_id, event_id);
CREATE INDEX pulls_due_expiry ON pulls_due (expires_on);

-- Numbers of transactions by time: every transaction that began after `at` has this number or a higher one. So a subscription that begins at
-- a time does not read the feed from its start.
CREATE TABLE feed_marks (
  at timestamptz PRIMARY KEY,
  transaction xid8 NOT NULL
);

-- Destinations in trouble, and the last notifications of their owners. since: start of the trouble. failures: failed attempts since then.
-- cause: answer or failure of the last failed attempt, or cause of the suspension. open: type of the last notification that a recovery would
-- answer, null if there is none. suspended_notified_at, failing_notified_at: time of the last notification, for debouncing.
-- check_at: next time at which to decide about notifications.
CREATE TABLE destination_alerts (
  tenant_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
  is_suspended boolean NOT NULL DEFAULT false,
  since timestamptz NOT NULL,
  failures bigint NOT NULL DEFAULT 0,
  cause text NOT NULL,
  last_failure_at timestamptz NOT NULL,
  last_success_at timestamptz NOT NULL DEFAULT '-infinity',
  open text,
  suspended_notified_at timestamptz NOT NULL DEFAULT '-infinity',
  failing_notified_at timestamptz NOT NULL DEFAULT '-infinity',
  check_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, destination)
);
CREATE INDEX destination_alerts_check ON destination_alerts (check_at);
