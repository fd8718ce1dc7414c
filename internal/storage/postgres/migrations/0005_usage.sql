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

-- Usage that other systems told of, by their own ids: its amount is in usage_hourly, added in the same statement.
CREATE TABLE usage_emissions (
  tenant_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  meter text NOT NULL,
  hour timestamptz NOT NULL,
  amount bigint NOT NULL,
  recorded_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX usage_emissions_age ON usage_emissions (recorded_at);

-- Came in over the month's hard limit, where the tenant's are accepted nevertheless.
ALTER TABLE events ADD COLUMN over_limit boolean NOT NULL DEFAULT false;

-- Of all processes that see a soft limit crossed, the one whose row comes first tells of it.
CREATE UNIQUE INDEX audit_soft_limits ON audit (tenant_id, (detail ->> 'limit'), (detail ->> 'period'))
  WHERE action = 'usage.soft_limit_crossed';
