-- Whether the tenant has a callback. Generated, so that it agrees with the spec, whichever version writes the row.
ALTER TABLE tenants ADD COLUMN has_callback boolean NOT NULL GENERATED ALWAYS AS (spec ? 'callback') STORED;

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
